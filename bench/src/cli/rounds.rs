//! Servers that get the same loads in turn.

use std::{
    io,
    path::{Path, PathBuf},
};

use graphmill_bench::{
    load::words::Measure,
    results::{Results, Run, Start},
    servers::{self, Server},
    tables,
};
use reqwest::Client;
use rustls::crypto::ring;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Outcome, print,
    target::{Case, Site},
};

/// Loads for servers of one model.
pub(super) struct Contest {
    /// The servers; ours comes first.
    pub(super) entrants: Vec<Entrant>,
    /// The loads.
    pub(super) cases: Vec<Case>,
    /// How often each is run.
    pub(super) rounds: usize,
    /// Starts a server for each run instead of one for all, so that nothing is left in its caches
    /// and the others are not there.
    pub(super) restart: bool,
}

/// A server that takes part.
#[derive(Clone, Debug)]
pub(super) struct Entrant {
    /// How it is reached.
    origin: Origin,
    /// The name of its model in results.
    model: String,
    /// The name to ask it by.
    served_model: String,
}

/// How a server is reached.
#[derive(Clone, Debug)]
enum Origin {
    /// Ours is started with options of its LLM node.
    Own {
        model: PathBuf,
        node_options: String,
    },
    /// Another is started by a command line, and is ready when a path answers.
    Command {
        line: String,
        model: PathBuf,
        ready_path: String,
    },
    /// It runs already.
    At { url: String, process: Option<u32> },
}

impl Entrant {
    /// Our server with a model.
    pub(super) fn own(model: &Path, node_options: &str) -> Self {
        Self {
            origin: Origin::Own {
                model: model.to_owned(),
                node_options: node_options.to_owned(),
            },
            model: file_name(model),
            served_model: servers::MODEL.to_owned(),
        }
    }

    /// Another server with a model, started by a command line.
    pub(super) fn command(line: &str, model: &Path, ready_path: &str, served_model: &str) -> Self {
        Self {
            origin: Origin::Command {
                line: line.to_owned(),
                model: model.to_owned(),
                ready_path: ready_path.to_owned(),
            },
            model: file_name(model),
            served_model: served_model.to_owned(),
        }
    }

    /// A running server, with the name of its model in results and the name to ask it by.
    pub(super) fn at(url: &str, model: &str, served_model: &str, process: Option<u32>) -> Self {
        Self {
            origin: Origin::At {
                url: url.to_owned(),
                process,
            },
            model: model.to_owned(),
            served_model: served_model.to_owned(),
        }
    }

    async fn server(&self, client: &Client) -> io::Result<Server> {
        match &self.origin {
            Origin::Own {
                model,
                node_options,
            } => Server::own(&servers::own_program()?, model, node_options, client).await,
            Origin::Command {
                line,
                model,
                ready_path,
            } => Server::other(line, model, ready_path, client).await,
            Origin::At { url, process } => Ok(Server::at(url, *process)),
        }
    }
}

/// A file's name as text.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Runs contests one after another and prints what came out; what was measured is kept when one
/// fails or a signal stops this program. The servers that were started end with it.
pub(super) fn run(contests: &[Contest], mut results: Results, json: Option<&Path>) -> Outcome {
    // One thread: the load generator is to leave the processors to the servers.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let stop = stop()?;
        let all = async {
            for contest in contests {
                contest.run(&mut results).await?;
            }
            Ok(())
        };
        tokio::select! {
            outcome = all => outcome,
            signal = stop => Err(format!("stopped by {signal}").into()),
        }
    });
    print(&tables::all(&results));
    json.map_or(Ok(()), |path| results.save(path))?;
    outcome
}

/// Waits for a signal that asks this program to end, from now on; says which.
pub(super) fn stop() -> io::Result<impl Future<Output = &'static str>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        }
    })
}

/// A contest that is going on.
struct Course<'a> {
    contest: &'a Contest,
    client: Client,
    /// The servers, where they run all the time.
    sites: Vec<Site>,
    /// How long words are in tokens: the same for all, so that all get the same texts.
    measure: Option<Measure>,
    results: &'a mut Results,
}

impl Contest {
    async fn run(&self, results: &mut Results) -> Outcome {
        let mut course = Course {
            contest: self,
            client: client()?,
            sites: Vec::new(),
            measure: None,
            results,
        };
        if !self.restart {
            for entrant in &self.entrants {
                let site = course.open(entrant).await?;
                course.sites.push(site);
            }
        }
        let mut cases = self.cases.clone();
        for round in 0..self.rounds {
            for case in &mut cases {
                if case.lacks_capacity() {
                    case.capacity = Some(course.capacity(case).await?);
                }
                for turn in 0..self.entrants.len() {
                    // Who comes first changes from round to round.
                    course
                        .turn(case, round, (round + turn) % self.entrants.len())
                        .await?;
                }
            }
        }
        Ok(())
    }
}

/// A connection for each request: servers end idle ones when they like, and a request that is sent
/// just then fails.
pub(super) fn client() -> reqwest::Result<Client> {
    // Fails where it is installed already.
    let _ = ring::default_provider().install_default();
    Client::builder().pool_max_idle_per_host(0).build()
}

impl Course<'_> {
    /// Opens a server and notes how long that took.
    async fn open(&mut self, entrant: &Entrant) -> Outcome<Site> {
        let server = entrant.server(&self.client).await?;
        if let Some(after) = server.ready_after {
            self.results.starts.push(Start {
                server: server.name.clone(),
                model: entrant.model.clone(),
                seconds: after.as_secs_f64(),
                mib: server.peak_mib(),
            });
        }
        let model = entrant.served_model.clone();
        let mut site = Site::new(self.client.clone(), server, model).await?;
        site.measure = *self.measure.get_or_insert(site.measure);
        Ok(site)
    }

    async fn capacity(&mut self, case: &Case) -> Outcome<f64> {
        if let Some(site) = self.sites.first() {
            return site.capacity(case).await;
        }
        self.open(&self.contest.entrants[0])
            .await?
            .capacity(case)
            .await
    }

    /// One server's run of a case.
    async fn turn(&mut self, case: &Case, round: usize, number: usize) -> Outcome {
        let entrant = &self.contest.entrants[number];
        let fresh;
        let (site, idle) = if self.contest.restart {
            fresh = self.open(entrant).await?;
            (&fresh, None)
        } else {
            let mut others = self
                .sites
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != number);
            (
                &self.sites[number],
                others.next().map(|(_, site)| &site.server),
            )
        };
        for (load, summary) in site.run(case, round, idle).await {
            self.results.runs.push(Run {
                server: site.server.name.clone(),
                model: entrant.model.clone(),
                load,
                round,
                summary,
            });
        }
        Ok(())
    }
}
