//! HEADER.FIELDS: selected fields of a raw header.

/// Returns the fields of `header` in `names` (with `not`: the others) and the empty line (RFC 3501 section 6.4.5).
/// Order and folding are kept. A line that is not a field belongs to the field before it.
pub fn header_fields(header: &[u8], names: &[Vec<u8>], not: bool) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut keep = false;
    for line in header.split_inclusive(|&byte| byte == b'\n') {
        if matches!(line, b"\r\n" | b"\n") {
            break;
        }
        if let Some(name) = field_name(line) {
            keep = names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name)) != not;
        }
        if keep {
            kept.extend_from_slice(line);
        }
    }
    // A header without a body may end within a line.
    if !kept.is_empty() && !kept.ends_with(b"\n") {
        kept.extend_from_slice(b"\r\n");
    }
    kept.extend_from_slice(b"\r\n");
    kept
}

fn field_name(line: &[u8]) -> Option<&[u8]> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let name = line[..colon].trim_ascii_end();
    let valid = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    valid.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &[u8] = b"From: a@x\r\nSubject: one\r\n\ttwo: three\r\nTO : b@x\r\n\r\nTo: body\r\n";

    fn fields(names: &[&str], not: bool) -> String {
        let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        String::from_utf8(header_fields(HEADER, &names, not)).unwrap()
    }

    #[test]
    fn folded_lines_stay_with_their_field() {
        assert_eq!(fields(&["subject", "to"], false), "Subject: one\r\n\ttwo: three\r\nTO : b@x\r\n\r\n");
        assert_eq!(fields(&["SUBJECT"], true), "From: a@x\r\nTO : b@x\r\n\r\n");
        assert_eq!(fields(&["x"], false), "\r\n");
        assert_eq!(header_fields(b"A: b", &[b"a".to_vec()], false), b"A: b\r\n\r\n");
    }

    proptest! {
        #[test]
        fn arbitrary_headers_end_with_an_empty_line(header in prop::collection::vec(any::<u8>(), 0..80), not: bool) {
            prop_assert!(header_fields(&header, &[b"a".to_vec()], not).ends_with(b"\r\n"));
        }
    }
}
