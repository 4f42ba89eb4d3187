//! The checks of the test harness.

use std::fmt::{Debug, Write as _};

use crate::{
    error::Error,
    packet::{Packet, Payload},
    session::Summary,
    timestamp::Timestamp,
};

use super::Harness;

impl Harness {
    /// Checks that exactly these packets came on a stream since the last look.
    #[track_caller]
    pub fn expect<T, I, P>(&mut self, stream: &str, expected: P) -> &mut Self
    where
        T: Payload + PartialEq,
        I: Into<Timestamp>,
        P: IntoIterator<Item = (I, T)>,
    {
        let packets = self.packets(stream);
        let expected = expected.into_iter();
        let expected: Vec<(Timestamp, T)> =
            expected.map(|(time, value)| (time.into(), value)).collect();
        let mut pairs = packets.iter().zip(&expected);
        let same = packets.len() == expected.len()
            && pairs.all(|(packet, (time, value))| {
                packet.time == *time && packet.get::<T>() == Some(value)
            });
        assert!(
            same,
            "stream `{stream}` is not as expected\n{}",
            self.difference(&packets, &expected)
        );
        self
    }

    /// Checks that no packet came on a stream since the last look.
    #[track_caller]
    pub fn expect_nothing(&mut self, stream: &str) -> &mut Self {
        let packets = self.packets(stream);
        assert!(
            packets.is_empty(),
            "nothing was expected on stream `{stream}`, but there are {packets:?}"
        );
        self
    }

    fn difference<T: Debug>(&self, packets: &[Packet], expected: &[(Timestamp, T)]) -> String {
        let mut text = String::new();
        for row in 0..packets.len().max(expected.len()) {
            let wanted = expected
                .get(row)
                .map_or("-".to_owned(), |(time, value)| format!("{value:?}{time:?}"));
            let found = packets
                .get(row)
                .map_or("-".to_owned(), |packet| format!("{packet:?}"));
            let mark = if wanted == found { ' ' } else { '!' };
            _ = writeln!(text, "{mark} expected {wanted:<40} found {found}");
        }
        let state = match &self.outcome {
            None => format!("the session goes on:\n{}", self.why()),
            Some(Ok(_)) => "the session has ended".to_owned(),
            Some(Err(error)) => format!("the session has failed: {error}"),
        };
        text.push_str(&state);
        text
    }

    /// Closes all inputs and checks that the session ends without an error.
    #[track_caller]
    pub fn finish(&mut self) -> Summary {
        self.start();
        if self.outcome.is_none() {
            self.close_all();
        }
        match &self.outcome {
            Some(Ok(summary)) => summary.clone(),
            Some(Err(error)) => panic!("the session failed: {error}"),
            None => panic!("the session does not end:\n{}", self.why()),
        }
    }

    /// Checks that the session has failed and returns the error.
    #[track_caller]
    pub fn error(&mut self) -> Error {
        self.start();
        match &self.outcome {
            Some(Err(error)) => error.clone(),
            Some(Ok(_)) => panic!("the session was expected to fail, but ended well"),
            None => panic!(
                "the session was expected to fail, but goes on:\n{}",
                self.why()
            ),
        }
    }
}
