//! The smallest ELF files that say something, for tests on any machine.

/// `EM_X86_64`.
pub(crate) const AMD64: u16 = 62;
/// `EM_AARCH64`.
pub(crate) const ARM64: u16 = 183;

/// What such a file says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Tiny {
    pub(crate) machine: u16,
    pub(crate) interpreter: Option<&'static str>,
    pub(crate) needed: Vec<&'static str>,
    pub(crate) runpath: Option<&'static str>,
}

impl Tiny {
    pub(crate) fn program(machine: u16, interpreter: &'static str) -> Tiny {
        Tiny { machine, interpreter: Some(interpreter), needed: Vec::new(), runpath: None }
    }

    pub(crate) fn library(machine: u16) -> Tiny {
        Tiny { machine, interpreter: None, needed: Vec::new(), runpath: None }
    }

    /// One loaded segment that is the whole file, a dynamic segment, and a loader's name.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        const HEADER: u64 = 64;
        const SEGMENT: u64 = 56;
        const BASE: u64 = 0x10000;
        let mut strings = vec![0_u8];
        let mut add = |text: &str| {
            let at = strings.len() as u64;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let mut dynamic: Vec<(u64, u64)> = self.needed.iter().map(|name| (1, add(name))).collect();
        dynamic.extend(self.runpath.map(|path| (29, add(path))));
        let interpreter = self.interpreter.map(|path| (add(path), path.len() as u64 + 1));
        let segments = 2 + u64::from(interpreter.is_some());
        let strings_at = HEADER + segments * SEGMENT;
        let dynamic_at = (strings_at + strings.len() as u64).next_multiple_of(8);
        dynamic.extend([(5, BASE + strings_at), (10, strings.len() as u64), (0, 0)]);
        let end = dynamic_at + dynamic.len() as u64 * 16;

        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut put = |size: usize, values: &[u64]| values.iter().for_each(|v| file.extend_from_slice(&v.to_le_bytes()[..size]));
        put(2, &[3, u64::from(self.machine)]);
        put(4, &[1]);
        put(8, &[0, HEADER, 0]);
        put(4, &[0]);
        put(2, &[HEADER, SEGMENT, segments, 64, 0, 0]);
        let mut segment = |kind: u64, at: u64, size: u64| {
            put(4, &[kind, 4]);
            put(8, &[at, BASE + at, BASE + at, size, size, 8]);
        };
        segment(1, 0, end);
        segment(2, dynamic_at, end - dynamic_at);
        if let Some((at, size)) = interpreter {
            segment(3, strings_at + at, size);
        }
        file.extend_from_slice(&strings);
        file.resize(usize::try_from(dynamic_at).expect("small"), 0);
        for (tag, value) in dynamic {
            file.extend_from_slice(&tag.to_le_bytes());
            file.extend_from_slice(&value.to_le_bytes());
        }
        file
    }
}
