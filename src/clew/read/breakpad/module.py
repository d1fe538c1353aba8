"""What a Breakpad symbol file is of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModuleRecord:
    """``MODULE os architecture id name``, each as it stands there; empty where it is missing."""

    os: str
    architecture: str
    id: str
    name: str
