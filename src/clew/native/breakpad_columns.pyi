FILE: int
ORIGIN: int
INFO: int
MODULE: int
FUNC: int
PUBLIC: int
