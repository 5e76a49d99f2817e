//! Programs in a session of their own.
//!
//! A command of root takes the identity of the data directory's owner. A program that it then starts is a process of this
//! user, who can control it by ptrace(2). In root's session it could open root's terminal, and type into root's shell. The
//! child leaves that session before it becomes the program; until then, ptrace(2) is refused, as for mailapi itself.

use std::io;
use std::process::Command;

use process_wrap::std::{ChildWrapper, CommandWrap, ProcessSession};

/// Starts a program in a new session, which has no terminal.
///
/// # Errors
/// When the program cannot be started.
pub fn spawn_in_own_session(command: Command) -> io::Result<Box<dyn ChildWrapper>> {
    CommandWrap::from(command).wrap(ProcessSession).spawn()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_program_leads_its_session() {
        let mut command = Command::new("sh");
        // Field 6 is the session, and 7 the terminal (proc_pid_stat(5)).
        command.args(["-c", "read -r stat </proc/$$/stat; set -- $stat; echo \"$6 $7\" $$"]).stdout(Stdio::piped());
        let output = spawn_in_own_session(command).unwrap().wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let [session, terminal, process] = text.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!((session, terminal), (process, "0"));
    }
}
