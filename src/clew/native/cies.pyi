from clew.native.pointers import Pointers

class CieRecord:
    offset: int
    end: int
    program: int
    address_size: int
    segment_size: int
    version: int
    fde_encoding: int
    lsda_encoding: int
    personality_encoding: int
    sized: bool
    signal: bool
    key_b: bool
    tagged: bool
    opaque: bool
    code_alignment: int
    data_alignment: int
    personality: int
    return_address: int
    augmentation: bytes
    augmentation_data: bytes
    error: str | None

class CieReader(Pointers): ...
