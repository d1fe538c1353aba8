"""A stopped machine: its threads with their registers, its memory, and the modules that are loaded in it."""

from clew.target.model import Module, Modules, Target, Thread

__all__ = ["Module", "Modules", "Target", "Thread"]
