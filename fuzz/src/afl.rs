//! Runs one target under AFL++: the one that `LINKVAULT_FUZZ_TARGET` names.

fn main() {
    let name = std::env::var("LINKVAULT_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = linkvault_fuzz::targets::find(&name) else {
        eprintln!("set LINKVAULT_FUZZ_TARGET to one of:");
        for target in linkvault_fuzz::targets::ALL {
            eprintln!("  {}", target.name);
        }
        std::process::exit(64);
    };
    afl::fuzz!(|input: &[u8]| (target.run)(input));
}
