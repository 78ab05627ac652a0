"""The checker: run somebody's own attention code and name the mistake."""

from clearhead.checker.live import check
from clearhead.checker.report import Report, check_paths, exit_code, run, to_json, to_text
from clearhead.checker.setup import TASKS, Flags

__all__ = ["TASKS", "Flags", "Report", "check", "check_paths", "exit_code", "run", "to_json", "to_text"]
