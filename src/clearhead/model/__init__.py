"""Thin modules: the parameters, plus one call of a formula each."""
