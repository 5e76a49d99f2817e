//! Reads a message's bytes from its rows.

use std::ops::Range;

use rusqlite::{Connection, MAIN_DB, params};

use super::content::{self, Layout};
use super::{MessageStoreError, damaged};

/// Rows up to this size in bytes are read as a whole with a prepared statement. Of a longer row only a part
/// may be needed, so it is read incrementally.
const WHOLE_ROW: u64 = 16 * 1024;
/// Read size for longer rows: fits in the processor's inner caches.
const STEP: usize = 32 * 1024;

/// Passes a range of a message's bytes to `take`, in order and in pieces, up to the end of the message.
pub(crate) fn visit(
    connection: &Connection,
    layout: &Layout,
    range: Range<u64>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), MessageStoreError> {
    let (mut at, end) = (range.start, range.end.min(layout.size));
    while at < end {
        let piece = at / layout.chunk_len;
        let first = piece * layout.chunk_len;
        let length = layout.chunk_len.min(layout.size - first);
        let wanted = position(at - first)?..position(length.min(end - first))?;
        at = first + wanted.end as u64;
        let key = content::key(layout.content, piece);
        if length <= WHOLE_ROW {
            visit_whole_row(connection, key, wanted, &mut take)?;
        } else {
            visit_long_row(connection, key, wanted, &mut take)?;
        }
    }
    Ok(())
}

fn visit_whole_row(
    connection: &Connection,
    key: i64,
    wanted: Range<usize>,
    take: &mut impl FnMut(&[u8]),
) -> Result<(), MessageStoreError> {
    let mut statement = connection.prepare_cached("SELECT octets FROM drop_chunks WHERE key = ?1")?;
    let mut rows = statement.query(params![key])?;
    let row = rows.next()?.ok_or(MessageStoreError::NoSuchMessage)?;
    let bytes = row.get_ref(0)?.as_blob().ok().and_then(|bytes| bytes.get(wanted));
    take(bytes.ok_or_else(|| damaged("a chunk of a message"))?);
    Ok(())
}

/// Reads a long row incrementally. Selecting the column would load all of it, and a part of it would be
/// another copy.
fn visit_long_row(
    connection: &Connection,
    key: i64,
    wanted: Range<usize>,
    take: &mut impl FnMut(&[u8]),
) -> Result<(), MessageStoreError> {
    let row = match connection.blob_open(MAIN_DB, c"drop_chunks", c"octets", key, true) {
        Ok(row) => row,
        // The error does not distinguish a missing row from other failures.
        Err(_) if !connection.prepare_cached("SELECT 1 FROM drop_chunks WHERE key = ?1")?.exists(params![key])? => {
            return Err(MessageStoreError::NoSuchMessage);
        }
        Err(error) => return Err(error.into()),
    };
    let mut bytes = vec![0; wanted.len().min(STEP)];
    for at in wanted.clone().step_by(STEP) {
        let step = &mut bytes[..STEP.min(wanted.end - at)];
        row.read_at_exact(step, at).map_err(|_| damaged("a chunk of a message"))?;
        take(step);
    }
    Ok(())
}

/// Reads a range of a message's bytes, up to the end of the message.
pub(crate) fn read_range(
    connection: &Connection,
    layout: &Layout,
    range: Range<u64>,
) -> Result<Vec<u8>, MessageStoreError> {
    let mut bytes = Vec::with_capacity(position(range.end.min(layout.size).saturating_sub(range.start))?);
    visit(connection, layout, range, |step| bytes.extend_from_slice(step))?;
    Ok(bytes)
}

/// Reads several ranges. A short message is a single row, which is read once.
pub(crate) fn read_ranges(
    connection: &Connection,
    layout: &Layout,
    ranges: Vec<Range<u64>>,
) -> Result<Vec<Vec<u8>>, MessageStoreError> {
    if layout.size > WHOLE_ROW {
        return ranges.into_iter().map(|range| read_range(connection, layout, range)).collect();
    }
    let whole = read_range(connection, layout, layout.whole())?;
    let part = |range: Range<u64>| {
        let part = position(range.start)?..position(range.end.min(layout.size))?;
        Ok(whole.get(part).unwrap_or_default().to_vec())
    };
    ranges.into_iter().map(part).collect()
}

fn position(bytes: u64) -> Result<usize, MessageStoreError> {
    usize::try_from(bytes).map_err(|_| damaged("the length of a message").into())
}
