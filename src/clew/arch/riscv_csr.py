"""The control and status registers of RISC-V, by number: The RISC-V Instruction Set Manual, Volume II, "CSR Listing".

The names are those in force where a register was renamed; the set is the one that GNU readelf 2.40 knows, which has
the extensions of its time (Smaia, Smstateen, Sscofpmf, Sstc, Zkr, V) and the registers of older privileged
specifications.
"""

from __future__ import annotations

import re

# Each line: the number of its first register, and the names of this and the following ones; `[3-5]` counts.
_LISTING = """
000 ustatus fflags frm fcsr uie utvec
008 vstart vxsat vxrm
00f vcsr
015 seed
040 uscratch uepc ucause utval uip
100 sstatus
102 sedeleg sideleg sie stvec scounteren
10a senvcfg
10c sstateen[0-3]
114 sieh
140 sscratch sepc scause stval sip
14d stimecmp
150 siselect sireg
154 siph
15c stopei stimecmph
180 satp
200 vsstatus
204 vsie vstvec
214 vsieh
240 vsscratch vsepc vscause vstval vsip
24d vstimecmp
250 vsiselect vsireg
254 vsiph
25c vstopei vstimecmph
280 vsatp
300 mstatus misa medeleg mideleg mie mtvec mcounteren
308 mvien mvip menvcfg
30c mstateen[0-3] mstatush
313 midelegh mieh
318 mvienh mviph menvcfgh
31c mstateen[0-3]h mcountinhibit mscounteren mhcounteren mhpmevent[3-31] mscratch mepc mcause mtval mip
34a mtinst mtval2
350 miselect mireg
354 miph
35c mtopei
380 mbase mbound mibase mibound mdbase mdbound
3a0 pmpcfg[0-15] pmpaddr[0-63]
5a8 scontext
600 hstatus
602 hedeleg hideleg hie htimedelta hcounteren hgeie hvien hvictl henvcfg
60c hstateen[0-3]
613 hidelegh
615 htimedeltah
618 hvienh
61a henvcfgh
61c hstateen[0-3]h
643 htval hip hvip hviprio1 hviprio2
64a htinst
655 hviph hviprio1h hviprio2h
680 hgatp
6a8 hcontext
723 mhpmevent[3-31]h
747 mseccfg
757 mseccfgh
7a0 tselect tdata[1-3] tinfo tcontrol
7a8 mcontext
7aa mscontext
7b0 dcsr dpc dscratch0 dscratch1
b00 mcycle
b02 minstret mhpmcounter[3-31]
b80 mcycleh
b82 minstreth mhpmcounter[3-31]h
c00 cycle time instret hpmcounter[3-31] vl vtype vlenb
c80 cycleh timeh instreth hpmcounter[3-31]h
da0 scountovf
db0 stopi
e12 hgeip
eb0 vstopi
f11 mvendorid marchid mimpid mhartid mconfigptr
fb0 mtopi
"""

_COUNTED = re.compile(r"(\w+)\[(\d+)-(\d+)\](\w*)")


def _read(listing: str) -> dict[int, str]:
    names: dict[int, str] = {}
    number = 0
    for line in listing.splitlines():
        words = line.split()
        if words and not line[0].isspace():
            number = int(words.pop(0), 16)
        for word in words:
            match = _COUNTED.fullmatch(word)
            run = [f"{match[1]}{n}{match[4]}" for n in range(int(match[2]), int(match[3]) + 1)] if match else [word]
            names.update(enumerate(run, number))
            number += len(run)
    return names


CSR_NAMES: dict[int, str] = _read(_LISTING)
"""Register number (0 to 4095) to name; a number that is not here is not allotted."""
