//! The samples of a sound file: WAV, MP3 or FLAC, of any rate and with up to eight channels.

use std::fmt::Display;
use std::io::{Cursor, ErrorKind};
use std::num::NonZero;

use graphmill_engine::Error;
use graphmill_llm::Sound;
use graphmill_llm::memory_budget::Claim;
use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler as _};
use symphonia::core::audio::Channels;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Undecoded;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

use super::{claim_room, tags};

/// Sample rates that a file may have, in samples per second.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=192_000;
/// Maximum number of channels of a file. They are mixed to one.
const CHANNELS: usize = 8;
/// Minimum length of a sound, as the denominator of a part of a second.
const SHORTEST: usize = 10;
/// Number of samples for which memory is claimed at once, whatever length a file states.
const BLOCK: usize = 1 << 16;
/// Bytes that a sample takes: decoded, resampled, and copied by the projector.
const BYTES_OF_EACH: usize = 24;
/// Approximate number of samples that are resampled at once.
const CHUNK: usize = 1024;

/// The reason why a file gives no samples.
pub(super) enum Fault {
    /// It is longer than the limit.
    TooLong,
    /// It is not valid. The text is the end of a sentence about it.
    Unreadable(String),
    /// There is not enough memory for it now.
    NoRoom(Error),
}

/// Reads the samples of a file at `rate` samples per second, of at most `seconds`.
pub(super) fn read(file: &[u8], rate: NonZero<u32>, seconds: u32) -> Result<Sound, Fault> {
    let recording = decode(file, seconds)?;
    let heard = recording.samples.len();
    if heard == 0 || heard < recording.rate as usize / SHORTEST {
        let why = format!("is a sound of less than a {SHORTEST}th of a second");
        return Err(Fault::Unreadable(why));
    }
    let samples = resample(recording.samples, recording.rate, rate.get())?;
    Sound::new(samples).ok_or_else(|| damaged("it has samples that are not finite numbers"))
}

/// Samples of one channel at the file's rate.
struct MonoSamples {
    samples: Vec<f32>,
    rate: u32,
    claims: Vec<Claim>,
}

/// Decodes a file and mixes its channels to one.
fn decode(file: &[u8], seconds: u32) -> Result<MonoSamples, Fault> {
    let (mut format, mut decoder) = open(file)?;
    let mut recording = MonoSamples {
        samples: Vec::new(),
        rate: 0,
        claims: Vec::new(),
    };
    let mut interleaved = Vec::<f32>::new();
    loop {
        let packet = match format.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => break,
            // A program that writes a file while it records cannot know the length for the header.
            Err(Undecoded::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(damaged(error)),
        };
        let frames = decoder.decode(&packet).map_err(damaged)?;
        let (rate, channels) = (frames.spec().rate(), frames.spec().channels().count());
        check_rate(rate)?;
        if recording.rate != rate && !recording.samples.is_empty() {
            return Err(damaged("its rate changes"));
        }
        recording.rate = rate;
        frames.copy_to_vec_interleaved(&mut interleaved);
        let channels = channels.max(1);
        let count = recording.samples.len() + interleaved.len() / channels;
        if count as u64 > u64::from(rate) * u64::from(seconds) {
            return Err(Fault::TooLong);
        }
        while recording.claims.len() * BLOCK < count {
            let claim = claim_room(BLOCK * BYTES_OF_EACH).map_err(Fault::NoRoom)?;
            recording.claims.push(claim);
        }
        let mixed = interleaved.chunks_exact(channels).map(|frame| {
            let sum: f32 = frame.iter().map(|sample| sample.clamp(-1.0, 1.0)).sum();
            sum / channels as f32
        });
        recording.samples.extend(mixed);
    }
    Ok(recording)
}

type AudioSource<'a> = (Box<dyn FormatReader + 'a>, Box<dyn AudioDecoder>);

fn open(file: &[u8]) -> Result<AudioSource<'static>, Fault> {
    let source = Box::new(Cursor::new(tags::left_out(file)));
    let source = MediaSourceStream::new(source, MediaSourceStreamOptions::default());
    let probe = symphonia::default::get_probe();
    let options = (FormatOptions::default(), MetadataOptions::default());
    let format = probe.probe(&Hint::new(), source, options.0, options.1);
    let format = format.map_err(|error| match error {
        Undecoded::DecodeError(why) => damaged(why),
        _ => Fault::Unreadable("is not a WAV, MP3 or FLAC file".to_owned()),
    })?;
    let track = format.default_track(TrackType::Audio);
    let params = track.and_then(|track| track.codec_params.as_ref());
    let params = params.and_then(|params| params.audio());
    let params = params.ok_or_else(|| damaged("it has no sound"))?;
    if let Some(rate) = params.sample_rate {
        check_rate(rate)?;
    }
    if let Some(channels) = params.channels.as_ref().map(Channels::count)
        && !(1..=CHANNELS).contains(&channels)
    {
        let why = format!("has {channels} channels, but can have 1 to {CHANNELS}");
        return Err(Fault::Unreadable(why));
    }
    let options = AudioDecoderOptions::default();
    let decoder = symphonia::default::get_codecs().make_audio_decoder(params, &options);
    Ok((format, decoder.map_err(damaged)?))
}

fn check_rate(rate: u32) -> Result<(), Fault> {
    if RATES.contains(&rate) {
        return Ok(());
    }
    let (least, most) = (RATES.start(), RATES.end());
    let why = format!("has {rate} samples per second, but can have {least} to {most}");
    Err(Fault::Unreadable(why))
}

fn resample(samples: Vec<f32>, from: u32, to: u32) -> Result<Vec<f32>, Fault> {
    if from == to {
        return Ok(samples);
    }
    let resampler = Fft::<f32>::new(from as usize, to as usize, CHUNK, 1, FixedSync::Both);
    let mut resampler = resampler.map_err(damaged)?;
    let count = samples.len();
    let input = InterleavedSlice::new(&samples, 1, count).map_err(damaged)?;
    let output = resampler.process_all(&input, count, None);
    Ok(output.map_err(damaged)?.take_data())
}

fn damaged(why: impl Display) -> Fault {
    Fault::Unreadable(format!("cannot be decoded: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: NonZero<u32> = NonZero::new(16_000).expect("more than none");
    const TURNS: f32 = 440.0;

    fn tone(rate: u32, at: u32) -> f32 {
        (TURNS * at as f32 / rate as f32 * std::f32::consts::TAU).sin() / 2.0
    }

    /// A second of a tone as a WAV file of 32-bit floats, with half the strength on every other
    /// channel.
    fn wav(rate: u32, channels: u16) -> Vec<u8> {
        let width = 4 * u32::from(channels);
        let mut file = b"RIFF....WAVEfmt \x10\0\0\0\x03\0".to_vec();
        file.extend(channels.to_le_bytes());
        file.extend(rate.to_le_bytes());
        file.extend((rate * width).to_le_bytes());
        file.extend((width as u16).to_le_bytes());
        file.extend(b"\x20\0data");
        file.extend((rate * width).to_le_bytes());
        for at in 0..rate {
            for channel in 0..channels {
                let sample = tone(rate, at) / f32::from(1 + channel % 2);
                file.extend(sample.to_le_bytes());
            }
        }
        file
    }

    #[test]
    fn a_tone_stays_the_same_at_each_rate_and_of_each_number_of_channels() {
        for rate in [8_000, 11_025, 16_000, 44_100, 48_000, 96_000] {
            for (channels, strength) in [(1, 1.0), (2, 0.75), (8, 0.75)] {
                let Ok(sound) = read(&wav(rate, channels), RATE, 2) else {
                    panic!("{rate}, {channels}: not read");
                };
                let heard = sound.samples();
                assert!(heard.len().abs_diff(16_000) <= 1, "{}", heard.len());
                // At the edges, there is nothing to interpolate with; half a sample of delay, at the
                // lower of the two rates, is not heard.
                let slower = rate.min(RATE.get()) as f32;
                let allowed = 0.01 + TURNS * std::f32::consts::FRAC_PI_2 / slower;
                for (at, sample) in heard.iter().enumerate().take(15_500).skip(500) {
                    let apart = sample - strength * tone(16_000, at as u32);
                    assert!(apart.abs() < allowed, "{rate}, {channels}: {apart} at {at}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_is_refused_and_what_is_too_loud_is_cut() {
        let mut file = wav(16_000, 1);
        let at = file.len() - 8_000;
        file[at..at + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
        assert!(read(&file, RATE, 2).is_ok());
        file[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(matches!(read(&file, RATE, 2), Err(Fault::Unreadable(_))));
        assert!(matches!(
            read(&wav(16_000, 1), RATE, 0),
            Err(Fault::TooLong)
        ));
    }
}
