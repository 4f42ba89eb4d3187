//! A check that the processor has the instructions that the program was compiled for. Without it, a
//! program from another machine ends with `Illegal instruction` and no explanation.

/// Returns true if the processor has them. Otherwise prints the missing ones to standard error.
#[cfg(target_arch = "x86_64")]
pub(super) fn suffices() -> bool {
    x86::suffices()
}

/// On other processors a build has no choice of instruction sets.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn suffices() -> bool {
    true
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{
        arch::x86_64::{__cpuid, __cpuid_count},
        io::Write,
    };

    /// The `cpuid` register that reports an instruction set.
    enum Leaf {
        /// Register `ecx` of leaf 1.
        Basic,
        /// Register `ebx` of leaf 7.
        Extended,
        /// Register `ecx` of leaf 7.
        Further,
        /// Register `ecx` of the first extended leaf of AMD.
        Amd,
    }

    /// Checks the processor. Code here may be compiled to missing instructions, so it is short: no
    /// vector, no formatting, only calls into the standard library, which needs none of them. The
    /// library's detection assumes the instructions that the program was compiled for, so it cannot
    /// be used.
    pub(super) fn suffices() -> bool {
        let (highest, highest_amd) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
        let basic = __cpuid(1).ecx;
        let (extended, further) = match highest {
            7.. => (__cpuid_count(7, 0).ebx, __cpuid_count(7, 0).ecx),
            _ => (0, 0),
        };
        let amd = match highest_amd {
            0x8000_0001.. => __cpuid(0x8000_0001).ecx,
            _ => 0,
        };
        let mut suffices = true;
        for (name, compiled, leaf, bit) in &NEEDED {
            let register = match leaf {
                Leaf::Basic => basic,
                Leaf::Extended => extended,
                Leaf::Further => further,
                Leaf::Amd => amd,
            };
            if *compiled && register & (1 << bit) == 0 {
                say(if suffices {
                    "error: this program was compiled for a processor with "
                } else {
                    ", "
                });
                say(name);
                suffices = false;
            }
        }
        if !suffices {
            say(
                ", which this one lacks; packages run on processors with AVX2, and a build on this machine on this one\n",
            );
        }
        suffices
    }

    /// Writes to standard error. A failure is ignored, as nobody reads it then.
    fn say(text: &str) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// For each instruction set: name, true if the program was compiled for it, and the register
    /// and bit that report it.
    #[rustfmt::skip]
    const NEEDED: [(&str, bool, Leaf, u32); 21] = [
        ("SSE3",              cfg!(target_feature = "sse3"),            Leaf::Basic,    0),
        ("SSSE3",             cfg!(target_feature = "ssse3"),           Leaf::Basic,    9),
        ("SSE4.2",            cfg!(target_feature = "sse4.2"),          Leaf::Basic,    20),
        ("POPCNT",            cfg!(target_feature = "popcnt"),          Leaf::Basic,    23),
        ("AVX",               cfg!(target_feature = "avx"),             Leaf::Basic,    28),
        ("FMA",               cfg!(target_feature = "fma"),             Leaf::Basic,    12),
        ("F16C",              cfg!(target_feature = "f16c"),            Leaf::Basic,    29),
        ("MOVBE",             cfg!(target_feature = "movbe"),           Leaf::Basic,    22),
        ("LZCNT",             cfg!(target_feature = "lzcnt"),           Leaf::Amd,      5),
        ("BMI1",              cfg!(target_feature = "bmi1"),            Leaf::Extended, 3),
        ("BMI2",              cfg!(target_feature = "bmi2"),            Leaf::Extended, 8),
        ("AVX2",              cfg!(target_feature = "avx2"),            Leaf::Extended, 5),
        ("AVX512F",           cfg!(target_feature = "avx512f"),         Leaf::Extended, 16),
        ("AVX512DQ",          cfg!(target_feature = "avx512dq"),        Leaf::Extended, 17),
        ("AVX512CD",          cfg!(target_feature = "avx512cd"),        Leaf::Extended, 28),
        ("AVX512BW",          cfg!(target_feature = "avx512bw"),        Leaf::Extended, 30),
        ("AVX512VL",          cfg!(target_feature = "avx512vl"),        Leaf::Extended, 31),
        ("AVX512IFMA",        cfg!(target_feature = "avx512ifma"),      Leaf::Extended, 21),
        ("AVX512VBMI",        cfg!(target_feature = "avx512vbmi"),      Leaf::Further,  1),
        ("AVX512VNNI",        cfg!(target_feature = "avx512vnni"),      Leaf::Further,  11),
        ("GFNI",              cfg!(target_feature = "gfni"),            Leaf::Further,  8),
    ];
}
