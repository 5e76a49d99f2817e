//! THREAD responses (RFC 5256 section 4).

use crate::server::ordering::Thread;
use crate::token::Writer;

/// What is still to be written.
enum Due {
    /// A thread in parentheses.
    Thread(usize),
    /// The end of a thread.
    End,
}

/// Writes `* THREAD (2)(3 6 (4 23)(44 7 96))`. `number` returns the number to show for a UID. Without recursion: a chain
/// of replies can be as long as the mailbox.
pub(in crate::server) fn write(
    writer: &mut Writer,
    threads: &[Thread],
    roots: &[usize],
    number: impl Fn(u32) -> Option<u32>,
) {
    writer.raw("* THREAD");
    let mut due: Vec<Due> = roots.iter().rev().map(|&root| Due::Thread(root)).collect();
    writer.raw(if due.is_empty() { "" } else { " " });
    while let Some(next) = due.pop() {
        match next {
            Due::End => {
                writer.raw(")");
            }
            Due::Thread(first) => {
                writer.raw("(");
                let last = write_chain(writer, threads, first, &number);
                due.push(Due::End);
                due.extend(threads[last].replies.iter().rev().map(|&reply| Due::Thread(reply)));
            }
        }
    }
    writer.crlf();
}

/// Writes messages with one reply each. Returns the last one, which has none or several.
fn write_chain(writer: &mut Writer, threads: &[Thread], first: usize, number: impl Fn(u32) -> Option<u32>) -> usize {
    let mut at = first;
    let mut space = "";
    loop {
        if let Some(number) = threads[at].uid.and_then(&number) {
            writer.raw(space).number(u64::from(number));
            space = " ";
        }
        match threads[at].replies[..] {
            [reply] => at = reply,
            // Only a message is separated from its replies by a space.
            ref several => {
                writer.raw(if several.is_empty() { "" } else { space });
                return at;
            }
        }
    }
}
