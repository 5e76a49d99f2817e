//! SEARCH and ESEARCH responses.

use crate::server::command::SearchReturn;
use crate::token::{SequenceSet, Writer};

/// Writes `* SEARCH ...` or `* SORT ...`. `modseq` is the highest of the messages, for a search that compared them (RFC 7162 section 3.1.5).
pub(in crate::server) fn write_plain(writer: &mut Writer, name: &str, numbers: &[u32], modseq: Option<u64>) {
    writer.raw("* ").raw(name);
    for &number in numbers {
        writer.raw(" ").number(u64::from(number));
    }
    if let Some(modseq) = modseq {
        writer.raw(" (MODSEQ ").number(modseq).raw(")");
    }
    writer.crlf();
}

/// Writes `* ESEARCH (TAG "...") ...` (RFC 4731), also for SORT (RFC 5267). Without a match, only COUNT is written.
pub(in crate::server) fn write_extended(
    writer: &mut Writer,
    tag: &str,
    uid: bool,
    wanted: SearchReturn,
    numbers: &[u32],
    modseq: Option<u64>,
) {
    writer.raw("* ESEARCH (TAG ").string(tag.as_bytes()).raw(")").raw(if uid { " UID" } else { "" });
    if let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) {
        if wanted.min {
            writer.raw(" MIN ").number(u64::from(first));
        }
        if wanted.max {
            writer.raw(" MAX ").number(u64::from(last));
        }
        if wanted.all {
            writer.raw(" ALL ").raw(&SequenceSet::compact(numbers));
        }
    }
    if wanted.count {
        writer.raw(" COUNT ").number(numbers.len() as u64);
    }
    if let Some(modseq) = modseq {
        writer.raw(" MODSEQ ").number(modseq);
    }
    writer.crlf();
}
