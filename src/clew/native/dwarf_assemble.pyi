from clew.native.dwarf_assembly import Assembly

class Assembler(Assembly):
    exceeded: bool
