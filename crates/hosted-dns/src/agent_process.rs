//! The program as a child of the server.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{RecordKind, SetChange};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::account::{HostedAccount, dns_name};
use crate::protocol::{FailureKind, HostedAnswer, HostedError, HostedJob, HostedRecords, MAX_LINE, read_line};

/// Time limit of an answer. The program itself ends a job earlier, with an answer.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Time in which the program ends after its input.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Programs that run at once. Each takes some 20 MB.
const AT_ONCE: usize = 8;
/// Environment variables that the program gets, if the server has them: the proxy and the authorities for TLS.
pub const PASSED_VARIABLES: [&str; 5] = ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE"];

/// The program `mailapi-dns`, and how it is started.
#[derive(Clone)]
pub struct AgentProgram {
    path: PathBuf,
    environment: Vec<(OsString, OsString)>,
    permits: Arc<Semaphore>,
}

/// A running program with one account. It ends when this value is dropped.
///
/// Jobs run one after the other. After an answer that is late or not understood the program is killed, and each later job
/// fails.
#[derive(Debug)]
pub struct DnsAgent {
    account: HostedAccount,
    running: Option<RunningProgram>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct RunningProgram {
    child: Box<dyn ChildWrapper>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The address of a proxy may have a password, so the environment is not shown.
impl fmt::Debug for AgentProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentProgram").field("path", &self.path).finish_non_exhaustive()
    }
}

impl AgentProgram {
    /// Names the program. Of the server's environment it gets only [`PASSED_VARIABLES`].
    pub fn new(path: impl Into<PathBuf>, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let is_passed = |name: &OsString| PASSED_VARIABLES.iter().any(|passed| name == passed);
        let environment = environment.into_iter().filter(|(name, _)| is_passed(name)).collect();
        Self { path: path.into(), environment, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }
}

impl DnsAgent {
    /// Starts the program for an account, when fewer than eight others run.
    ///
    /// # Errors
    /// [`FailureKind::Unanswered`] if the program cannot be started. Nothing was changed.
    pub async fn start(program: &AgentProgram, account: HostedAccount) -> Result<Self, HostedError> {
        let permit = match timeout(ANSWER_LIMIT, program.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) | Err(_) => return Err(unanswered("too many programs for hosted DNS wait for their providers")),
        };
        let mut running = RunningProgram::start(program)
            .map_err(|error| unanswered(&format!("{} does not start: {error}", program.path.display())))?;
        let line = account.to_line();
        match timeout(ANSWER_LIMIT, running.input.write_all(line.expose().as_bytes())).await {
            Ok(Ok(())) => Ok(Self { account, running: Some(running), _permit: permit }),
            Ok(Err(_)) | Err(_) => {
                running.kill().await;
                Err(unanswered("the program for hosted DNS does not read its input"))
            }
        }
    }

    /// Returns the records of a name and type at the provider.
    ///
    /// # Errors
    /// See [`FailureKind`].
    pub async fn list(&mut self, name: &str, kind: RecordKind) -> Result<HostedRecords, HostedError> {
        let job = HostedJob::List { name: self.name_within(name)?, kind };
        match self.answer_to(&job).await? {
            HostedAnswer::Records(records) => Ok(records),
            HostedAnswer::Replaced => Err(self.give_up("the program for hosted DNS answers another question").await),
            HostedAnswer::Failed(error) => Err(error),
        }
    }

    /// Replaces the records of a name and type, if they are those of `before`.
    ///
    /// APIs over HTTP cannot compare and replace in one step. A change that another writer makes between both is lost. A
    /// change without difference only compares.
    ///
    /// # Errors
    /// See [`FailureKind`].
    pub async fn replace(&mut self, change: &SetChange) -> Result<(), HostedError> {
        if dns_name(&change.zone).as_deref() != Some(self.account.zone()) {
            return Err(HostedError::new(FailureKind::Invalid, "the account is for another zone"));
        }
        let job = HostedJob::Replace {
            name: self.name_within(&change.name)?,
            kind: change.kind,
            ttl: change.after.ttl,
            before: change.before.records.clone(),
            after: change.after.records.clone(),
        };
        match self.answer_to(&job).await? {
            HostedAnswer::Replaced => Ok(()),
            HostedAnswer::Records(_) => Err(self.give_up("the program for hosted DNS answers another question").await),
            HostedAnswer::Failed(error) => Err(error),
        }
    }

    /// Ends the program.
    pub async fn stop(mut self) {
        if let Some(running) = self.running.take() {
            running.end().await;
        }
    }

    /// Returns the number of the process, while it runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.running.as_ref().and_then(|running| running.child.id())
    }

    fn name_within(&self, name: &str) -> Result<String, HostedError> {
        let name = dns_name(name).filter(|name| self.account.contains(name));
        name.ok_or_else(|| HostedError::new(FailureKind::Invalid, "the name is not in the zone of the account"))
    }

    async fn answer_to(&mut self, job: &HostedJob) -> Result<HostedAnswer, HostedError> {
        let line = job.to_line();
        if line.len() > MAX_LINE {
            return Err(HostedError::new(FailureKind::Invalid, "the records are too long"));
        }
        // While the answer is outstanding the program is not in place: a caller that gives up drops it, which kills it.
        let Some(mut running) = self.running.take() else {
            return Err(unanswered("the program for hosted DNS has ended"));
        };
        let problem = match timeout(ANSWER_LIMIT, running.exchange(&line)).await {
            Ok(Some(answer)) => match HostedAnswer::from_line(&answer, job.kind()) {
                Ok(answer) => {
                    self.running = Some(running);
                    return Ok(match answer {
                        HostedAnswer::Failed(error) => HostedAnswer::Failed(error.scrubbed(&self.account)),
                        answer => answer,
                    });
                }
                Err(_) => "the program for hosted DNS gave an answer that is not of its protocol",
            },
            Ok(None) => "the program for hosted DNS ended without an answer",
            Err(_) => "the program for hosted DNS gave no answer in time",
        };
        running.kill().await;
        Err(unanswered(problem))
    }

    async fn give_up(&mut self, problem: &str) -> HostedError {
        if let Some(running) = self.running.take() {
            running.kill().await;
        }
        unanswered(problem)
    }
}

impl RunningProgram {
    fn start(program: &AgentProgram) -> io::Result<Self> {
        // Commands of root start it, too: in their session, it could type into root's terminal.
        let mut child = CommandWrap::from(program.command()).wrap(ProcessSession).spawn()?;
        let pipes = child.stdin().take().zip(child.stdout().take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Sends a line and returns the answer; `None` if the pipe breaks or the answer has no line end.
    async fn exchange(&mut self, line: &str) -> Option<Vec<u8>> {
        self.input.write_all(line.as_bytes()).await.ok()?;
        read_line(&mut self.output).await.ok()?
    }

    /// Ends the input, after which the program ends by itself.
    async fn end(self) {
        let Self { mut child, input, output } = self;
        drop((input, output));
        if timeout(END_LIMIT, child.wait()).await.is_err() {
            // An error is that the program has just ended.
            let _ = Box::into_pin(child.kill()).await;
        }
    }

    async fn kill(mut self) {
        // An error is that the program has ended before.
        let _ = Box::into_pin(self.child.kill()).await;
    }
}

fn unanswered(problem: &str) -> HostedError {
    HostedError::new(FailureKind::Unanswered, problem)
}
