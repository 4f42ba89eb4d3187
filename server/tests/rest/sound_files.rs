//! Files of sound.

/// A tone in a WAV file of 16-bit samples, the same in each channel.
#[derive(Clone, Copy)]
pub(crate) struct Wav {
    pub(crate) rate: u32,
    pub(crate) channels: u16,
    pub(crate) seconds: f32,
    pub(crate) pitch: f32,
}

impl Wav {
    pub(crate) const SHORT: Self = Self {
        rate: 16_000,
        channels: 1,
        seconds: 0.5,
        pitch: 440.0,
    };

    pub(crate) fn file(self) -> Vec<u8> {
        let frames = (self.seconds * self.rate as f32) as u32;
        let width = 2 * u32::from(self.channels);
        let mut file = b"RIFF".to_vec();
        file.extend((36 + frames * width).to_le_bytes());
        file.extend(b"WAVEfmt ");
        file.extend(16_u32.to_le_bytes());
        file.extend(1_u16.to_le_bytes());
        file.extend(self.channels.to_le_bytes());
        file.extend(self.rate.to_le_bytes());
        file.extend((self.rate * width).to_le_bytes());
        file.extend((width as u16).to_le_bytes());
        file.extend(16_u16.to_le_bytes());
        file.extend(b"data");
        file.extend((frames * width).to_le_bytes());
        for frame in 0..frames {
            let turn = self.pitch * frame as f32 / self.rate as f32;
            let sample = (turn * std::f32::consts::TAU).sin() * 12_000.0;
            for _ in 0..self.channels {
                file.extend((sample as i16).to_le_bytes());
            }
        }
        file
    }
}

/// Silence as an MP3 file: empty frames of 128 kbit/s at 44100 samples a second.
pub(crate) fn mp3(frames: usize) -> Vec<u8> {
    let mut frame = vec![0; 417];
    frame[..4].copy_from_slice(&[0xff, 0xfb, 0x90, 0xc0]);
    frame.repeat(frames)
}

/// A FLAC file of 16000 samples a second: each frame has 4096 that are all the same.
pub(crate) fn flac(frames: u32) -> Vec<u8> {
    let mut file = b"fLaC".to_vec();
    file.extend([0x80, 0, 0, 34, 0x10, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    // The rate, one channel and 16 bits, in 20, 3 and 5 bits, and a length that is not known.
    file.extend((16_000_u32 << 12 | 15 << 4).to_be_bytes());
    file.extend([0; 4 + 16]);
    for number in 0..frames {
        let mut frame = vec![0xff, 0xf8, 0xc5, 0x08];
        let mut coded = [0; 4];
        let number = char::from_u32(number).expect("fewer than there are surrogates");
        frame.extend(number.encode_utf8(&mut coded).bytes());
        frame.push(crc(&frame, 8, 0x07) as u8);
        frame.extend([0, 0x10, 0]);
        frame.extend((crc(&frame, 16, 0x8005) as u16).to_be_bytes());
        file.extend(frame);
    }
    file
}

fn crc(bytes: &[u8], bits: u32, polynomial: u32) -> u32 {
    let top = 1 << (bits - 1);
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(*byte) << (bits - 8)), |crc, _| {
            let divided = if crc & top == 0 { 0 } else { polynomial };
            ((crc << 1) ^ divided) & (2 * top - 1)
        })
    })
}
