//! What a Linux program says of itself: its architecture, its loader, and what it needs.

use std::fs::File;
use std::path::Path;

use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::read::{ReadCache, ReadRef, StringTable};
use object::{Endianness, elf};

use crate::cluster::image::ImageError;

/// What the file's headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// As image platforms have it: `amd64`, `arm64`, `riscv64`; `machine N` for others.
    pub architecture: String,
    /// The loader that starts it (`PT_INTERP`); `None` for a static program or a library.
    pub interpreter: Option<String>,
    /// Libraries that it needs (`DT_NEEDED`), in order.
    pub needed: Vec<String>,
    /// Folders in which to look first, where there is no `runpath` (`DT_RPATH`).
    pub rpath: Vec<String>,
    /// Folders in which to look first (`DT_RUNPATH`).
    pub runpath: Vec<String>,
}

/// Reads the headers of a program or library.
///
/// # Errors
/// When it cannot be read, or is not ELF of 64 bits.
pub fn read(path: &Path) -> Result<Program, ImageError> {
    let file = File::open(path).map_err(ImageError::file("read", path))?;
    let cache = ReadCache::new(file);
    parse(&cache).map_err(|reason| ImageError::NotElf { path: path.to_path_buf(), reason })
}

fn parse<'d, R: ReadRef<'d>>(data: R) -> Result<Program, String> {
    let said = |error: object::read::Error| error.to_string();
    let header = elf::FileHeader64::<Endianness>::parse(data).map_err(said)?;
    let endian = header.endian().map_err(said)?;
    let segments = header.program_headers(endian, data).map_err(said)?;
    let machine = header.e_machine(endian);
    let architecture = match machine {
        elf::EM_X86_64 => "amd64".to_owned(),
        elf::EM_AARCH64 => "arm64".to_owned(),
        elf::EM_RISCV => "riscv64".to_owned(),
        elf::EM_S390 => "s390x".to_owned(),
        elf::EM_PPC64 => "ppc64le".to_owned(),
        other => format!("machine {}", other.0),
    };
    let mut program = Program { architecture, ..Program::default() };
    let mut dynamic = None;
    for segment in segments {
        if let Some(interpreter) = segment.interpreter(endian, data).map_err(said)? {
            program.interpreter = Some(String::from_utf8_lossy(interpreter).into_owned());
        }
        if let Some(table) = segment.dynamic(endian, data).map_err(said)? {
            dynamic = Some(table);
        }
    }
    let Some(dynamic) = dynamic else { return Ok(program) };
    let value = |tag| dynamic.iter().find(|entry| entry.tag(endian) == tag).map(|entry| entry.val(endian));
    let (Some(address), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else { return Ok(program) };
    // The table of strings is named by where it will be in memory; the segments say where in the file that is.
    let loaded = segments.iter().filter(|s| s.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
        let from = segment.p_vaddr(endian);
        let inside = address.checked_sub(from).filter(|inside| *inside < segment.p_filesz(endian))?;
        segment.p_offset(endian).checked_add(inside)
    });
    let start = loaded.ok_or("its table of strings is in no segment")?;
    let end = start.checked_add(size).ok_or("its table of strings has no end")?;
    let strings = StringTable::new(data, start, end);
    let text =
        |entry: &elf::Dyn64<Endianness>| entry.string(endian, strings).map(|t| String::from_utf8_lossy(t).into_owned()).map_err(said);
    let folders = |text: String| text.split(':').filter(|f| !f.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    for entry in dynamic.iter().take_while(|entry| entry.tag(endian) != elf::DT_NULL) {
        match entry.tag(endian) {
            elf::DT_NEEDED => program.needed.push(text(entry)?),
            elf::DT_RPATH => program.rpath = folders(text(entry)?),
            elf::DT_RUNPATH => program.runpath = folders(text(entry)?),
            _ => {}
        }
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::read;
    use crate::cluster::image::ImageError;

    #[test]
    fn what_is_no_linux_program_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        for content in
            [&b""[..], b"#!/bin/sh\n", b"\x7fELF", b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
        {
            let path = folder.path().join("file");
            std::fs::write(&path, content).expect("written");
            assert!(matches!(read(&path), Err(ImageError::NotElf { .. })), "{content:?}");
        }
        assert!(matches!(read(Path::new("/nonexistent")), Err(ImageError::File { .. })));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_very_program_is_read_and_broken_copies_of_it_break_nothing() {
        let me = std::env::current_exe().expect("a path");
        let program = read(&me).expect("read");
        let machine = if std::env::consts::ARCH == "x86_64" { "amd64" } else { "arm64" };
        assert!(program.architecture == machine || !matches!(std::env::consts::ARCH, "x86_64" | "aarch64"), "{program:?}");
        if program.interpreter.is_some() {
            assert!(program.needed.iter().any(|n| n.starts_with("libc")), "{program:?}");
        }
        // Whatever is cut off or turned around: an answer or an error, and no end of the process.
        use std::io::Read as _;
        let mut head = Vec::new();
        std::fs::File::open(&me).expect("opened").take(4096).read_to_end(&mut head).expect("read");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("broken");
        for at in (0..1024).step_by(3) {
            let mut broken = head.clone();
            broken[at] = !broken[at];
            broken.truncate(4096 - at);
            std::fs::write(&path, &broken).expect("written");
            let _ = read(&path);
        }
    }
}
