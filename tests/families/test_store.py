"""Folders are complete or invisible, also when the process is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.families.store import new_folder, read_json, read_tensors, write_json

WRITER = """
import sys, time
from pathlib import Path
from clearhead.families.store import new_folder
for turn in range(10_000):
    with new_folder(sys.argv[1]) as fresh:
        for part in "abc":
            (fresh / part).write_text(str(turn) * 1000)
    print(turn, flush=True)
"""


def test_a_new_folder_takes_the_place_of_the_old_one_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "run"
    with new_folder(place) as fresh:
        (fresh / "a").write_text("1")
        assert not place.exists()
    with new_folder(place) as fresh:
        (fresh / "b").write_text("2")
        assert (place / "a").read_text() == "1"
    assert [p.name for p in place.iterdir()] == ["b"]
    assert [p.name for p in place.parent.iterdir()] == ["run"]


def test_a_failing_block_leaves_the_old_folder_and_no_trace(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with new_folder(place) as fresh:
        (fresh / "a").write_text("1")

    def fail() -> None:
        with new_folder(place) as fresh:
            (fresh / "a").write_text("2")
            raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        fail()
    assert (place / "a").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_the_folders_rights_are_those_of_any_new_folder(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with new_folder(tmp_path / "run"):
        pass
    assert (tmp_path / "run").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ValueError, match="is a file; choose a folder"), new_folder(tmp_path / "run"):
        pass
    assert (tmp_path / "run").read_text() == "mine"


def test_trn_01_a_kill_at_any_moment_leaves_a_complete_folder(tmp_path: Path) -> None:
    place = tmp_path / "run"
    for delay in (0.0, 0.003, 0.007, 0.013):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(place)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        writer.stdout.readline()  # the first folder is there
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        with new_folder(tmp_path / "probe"):
            pass
        from clearhead.families.store import recover

        recover(place)
        texts = {(place / part).read_text() for part in "abc"}
        assert len(texts) == 1


def test_an_old_folder_is_put_back_after_a_kill_between_the_two_renames(tmp_path: Path) -> None:
    from clearhead.families.store import recover

    hidden = tmp_path / ".run.old-x1"
    hidden.mkdir()
    (hidden / "a").write_text("1")
    recover(tmp_path / "run")
    assert (tmp_path / "run" / "a").read_text() == "1"
    assert not hidden.exists()


def test_json_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json is missing; is .* a complete model folder"):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text('{"dim": 12')
    with pytest.raises(ValueError, match=r"config\.json is not JSON .* damaged or half-written"):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="holds a list, not an object"):
        read_json(tmp_path / "config.json")
    write_json(tmp_path / "config.json", {"to": "zwölf"})
    assert read_json(tmp_path / "config.json") == {"to": "zwölf"}
    assert "zwölf" in (tmp_path / "config.json").read_text("utf-8")


def test_a_truncated_tensor_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model\.safetensors is missing"):
        read_tensors(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"\x00" * 7)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        read_tensors(tmp_path / "model.safetensors")
    assert os.listdir(tmp_path) == ["model.safetensors"]
