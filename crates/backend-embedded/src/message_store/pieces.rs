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
    let added = layout.added_line();
    let part = added.part_in(&range);
    if part.is_empty() {
        return visit_stored(connection, layout, added.without(&range), &mut take);
    }
    // The line is between two parts of one row, which is read once.
    let (stored, mut is_taken) = (added.without(&range), false);
    let mut at = stored.start;
    visit_stored(connection, layout, stored, |bytes| {
        let rest = added.place.checked_sub(at).and_then(|rest| usize::try_from(rest).ok());
        at += bytes.len() as u64;
        match rest.filter(|rest| !is_taken && *rest <= bytes.len()) {
            Some(rest) => {
                is_taken = true;
                [&bytes[..rest], part, &bytes[rest..]].into_iter().filter(|some| !some.is_empty()).for_each(&mut take);
            }
            None => take(bytes),
        }
    })?;
    if !is_taken {
        take(part);
    }
    Ok(())
}

/// Passes a range of the stored bytes to `take`.
fn visit_stored(
    connection: &Connection,
    layout: &Layout,
    range: Range<u64>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), MessageStoreError> {
    let size = layout.stored_size();
    let (mut at, end) = (range.start, range.end.min(size));
    while at < end {
        let piece = at / layout.chunk_len;
        let first = piece * layout.chunk_len;
        let length = layout.chunk_len.min(size - first);
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

#[cfg(test)]
mod tests {
    use super::super::id::ContentId;
    use super::*;

    const STORED: &[u8] = b"Return-Path: <>\r\nSubject: x\r\n\r\nHello.\r\n";
    const SHOWN: &[u8] = b"Return-Path: <>\r\nDelivered-To: bob@b.example\r\nSubject: x\r\n\r\nHello.\r\n";

    /// Stores the message in chunks, the first of which has its first line.
    fn stored(chunk_len: usize) -> (Connection, Layout) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE drop_chunks (key INTEGER PRIMARY KEY, octets BLOB NOT NULL)").unwrap();
        for (piece, bytes) in STORED.chunks(chunk_len).enumerate() {
            let key = content::key(ContentId(1), piece as u64);
            connection.execute("INSERT INTO drop_chunks (key, octets) VALUES (?1, ?2)", params![key, bytes]).unwrap();
        }
        let row = params![STORED.len(), b"Return-Path: <>\r\n".len(), chunk_len];
        let layout = connection.query_row("SELECT 1, ?1, ?2, ?3", row, content::read_layout).unwrap();
        (connection, layout.delivered_to(Some("bob@b.example")))
    }

    #[test]
    fn every_range_has_its_part_of_the_added_line() {
        for chunk_len in [17, 18, 30, 100] {
            let (connection, layout) = stored(chunk_len);
            assert_eq!(read_range(&connection, &layout, layout.whole()).unwrap(), SHOWN);
            for start in 0..=SHOWN.len() {
                for end in start..=SHOWN.len() + 2 {
                    let read = read_range(&connection, &layout, start as u64..end as u64).unwrap();
                    assert_eq!(read, SHOWN[start..end.min(SHOWN.len())], "{start}..{end} of {chunk_len}");
                }
            }
            let submitted = read_range(&connection, &layout, layout.as_submitted()).unwrap();
            assert_eq!(submitted, b"Subject: x\r\n\r\nHello.\r\n");
        }
    }

    #[test]
    fn pieces_of_a_stream_end_at_the_end_of_a_row() {
        let (connection, layout) = stored(18);
        let (mut at, mut all) = (0, Vec::new());
        while at < layout.size {
            let next = layout.end_of_piece(at).min(layout.size);
            all.push(read_range(&connection, &layout, at..next).unwrap());
            at = next;
        }
        assert_eq!((all.len(), all.concat()), (STORED.len().div_ceil(18), SHOWN.to_vec()));
    }
}
