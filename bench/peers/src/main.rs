//! gimli beside clew: all rows of a file's `.eh_frame` (or `.debug_frame`), on request.
//!
//! Each line `go` on standard input runs one repetition and is answered by a line `nanoseconds rows failed checksum`:
//! CPU time of this thread, rows made, FDEs that could not be expanded, and the sum of the rows' start addresses.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead, Write};

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EndianSlice, RunTimeEndian, UnwindContext,
    UnwindSection, Vendor,
};
use object::{Architecture, Endianness, Object, ObjectSection};

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

#[derive(Default)]
struct Outcome {
    rows: u64,
    failed: u64,
    checksum: u64,
}

/// CPU time of this thread so far, in nanoseconds.
fn cpu_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Makes every row of every FDE. CIEs are parsed once each, as gimli's documentation advises.
fn expand<'a, S>(section: &S, bases: &BaseAddresses) -> gimli::Result<Outcome>
where
    S: UnwindSection<Reader<'a>>,
    S::Offset: Copy + std::hash::Hash + Eq,
{
    let mut outcome = Outcome::default();
    let mut context = UnwindContext::new();
    let mut cies = HashMap::new();
    let mut entries = section.entries(bases);
    while let Some(entry) = entries.next()? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let parsed = partial.parse(|section, bases, offset| match cies.get(&offset) {
            Some(cie) => Ok(Clone::clone(cie)),
            None => {
                let cie = section.cie_from_offset(bases, offset)?;
                cies.insert(offset, cie.clone());
                Ok(cie)
            }
        });
        let Ok(fde) = parsed else {
            outcome.failed += 1;
            continue;
        };
        let Ok(mut table) = fde.rows(section, bases, &mut context) else {
            outcome.failed += 1;
            continue;
        };
        loop {
            match table.next_row() {
                Ok(Some(row)) => {
                    // A row of no length holds nowhere; clew keeps none.
                    if row.start_address() < row.end_address() {
                        outcome.rows += 1;
                        outcome.checksum = outcome.checksum.wrapping_add(row.start_address());
                    }
                    black_box(row.cfa());
                }
                Ok(None) => break,
                Err(_) => {
                    outcome.failed += 1;
                    break;
                }
            }
        }
    }
    Ok(outcome)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: clew-bench-peers FILE")?;
    let file = File::open(&path)?;
    // SAFETY: nobody changes the file while it is measured.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    let object = object::File::parse(&*map)?;
    let endian = match object.endianness() {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let address_size = if object.is_64() { 8 } else { 4 };
    let vendor = match object.architecture() {
        Architecture::Aarch64 => Vendor::AArch64,
        _ => Vendor::Default,
    };
    let address = |name: &str| {
        object
            .section_by_name(name)
            .map_or(0, |section| section.address())
    };
    let bases = BaseAddresses::default()
        .set_eh_frame(address(".eh_frame"))
        .set_text(address(".text"))
        .set_got(address(".got"));
    // A copy in memory, so that no page of the file is read while the time runs.
    let is_eh = object.section_by_name(".eh_frame").is_some();
    let name = if is_eh { ".eh_frame" } else { ".debug_frame" };
    let data = object
        .section_by_name(name)
        .ok_or("no call frame information")?
        .data()?
        .to_vec();

    for line in io::stdin().lock().lines() {
        if line?.trim() != "go" {
            break;
        }
        let before = cpu_time();
        let outcome = if is_eh {
            let mut section = EhFrame::new(&data, endian);
            section.set_address_size(address_size);
            section.set_vendor(vendor);
            expand(&section, &bases)?
        } else {
            let mut section = DebugFrame::new(&data, endian);
            section.set_address_size(address_size);
            section.set_vendor(vendor);
            expand(&section, &bases)?
        };
        let spent = cpu_time() - before;
        println!(
            "{spent} {} {} {}",
            outcome.rows, outcome.failed, outcome.checksum
        );
        io::stdout().flush()?;
    }
    Ok(())
}
