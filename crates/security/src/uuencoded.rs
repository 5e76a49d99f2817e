//! Files inside a plain text, as programs wrote them before MIME. Some mail programs still show them as attachments.

/// A file that was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the files of a text, at most some.
pub(crate) fn files(text: &str, most: usize) -> Vec<EncodedFile> {
    let mut lines = text.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if found.len() == most {
            break;
        }
        let Some(name) = begun(line) else { continue };
        if lines.peek().is_none_or(|line| decoded(line).is_none()) {
            continue;
        }
        let mut bytes = Vec::new();
        while let Some(piece) = lines.peek().and_then(|line| decoded(line)) {
            bytes.extend(piece);
            lines.next();
        }
        found.push(EncodedFile { name: name.to_owned(), bytes });
    }
    found
}

/// Returns the name in the line that begins a file.
fn begun(line: &str) -> Option<&str> {
    let (mode, name) = line.strip_prefix("begin ")?.split_once(' ')?;
    let is_mode = matches!(mode.len(), 3 | 4) && mode.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    Some(name.trim()).filter(|name| is_mode && !name.is_empty())
}

/// Returns the bytes of a line: their number, and four characters for each three of them.
fn decoded(line: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| (b' '..=b'`').contains(&byte).then(|| (byte - b' ') & 63);
    let (first, rest) = line.as_bytes().split_first()?;
    let count = usize::from(value(*first)?);
    // Servers remove blanks at the end of lines.
    let values: Vec<u8> = rest.iter().map(|byte| value(*byte)).collect::<Option<_>>()?;
    let longest = count.div_ceil(3) * 4;
    if count == 0 || values.len() > longest + 2 || values.len() + 4 <= longest {
        return None;
    }
    let group = |four: &[u8]| {
        let at = |index: usize| four.get(index).copied().unwrap_or_default();
        [at(0) << 2 | at(1) >> 4, at(1) << 4 | at(2) >> 2, at(2) << 6 | at(3)]
    };
    let mut bytes: Vec<u8> = values.chunks(4).flat_map(group).collect();
    bytes.truncate(count);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str, bytes: &[u8]) -> EncodedFile {
        EncodedFile { name: name.to_owned(), bytes: bytes.to_vec() }
    }

    #[test]
    fn files_in_texts_are_found() {
        let text =
            "Hi\r\nbegin 644 my order.exe\r\n#35J0\r\n`\r\nend\r\nBye\r\nbegin 0755 b.txt\r\n#0V%T\r\n`\r\nend\r\n";
        assert_eq!(files(text, 9), [file("my order.exe", b"MZ\x90"), file("b.txt", b"Cat")]);
        assert_eq!(files(text, 1).len(), 1);
    }

    #[test]
    fn words_are_no_files() {
        for text in [
            "begin 644 words and more",
            "begin 644 name.exe\r\nwith a sentence that is a text.",
            "begin the day\r\n#0V%T",
            "begin 999 a.exe\r\n#0V%T",
            "begin 644 \r\n#0V%T",
        ] {
            assert!(files(text, 9).is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_searched(text in "(begin 644 a.exe\n|#0V%T\n|M|`\n|end\n|[ -`]{0,62}\n|\\PC){0,20}") {
            let _ = files(&text, 9);
        }
    }
}
