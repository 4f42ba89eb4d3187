//! Images that say more of themselves than they are: decoding one takes no more memory than what it
//! may have, and a word says why it is refused.

use std::io::{Cursor, Write as _};

use dhat::HeapStats;
use flate2::{Compression, Crc, write::ZlibEncoder};
use graphmill_calculators::tensor::Tensor;
use graphmill_engine::testing::Harness;
use image::{ImageFormat, RgbImage};

/// Bytes that a bomb may take, of which its file is up to 8 MiB.
const MOST: usize = 64 << 20;
const GRAPH: &str = r#"
    input_stream: "FILE:file"
    output_stream: "IMAGE:image"
    node { calculator: "ImageDecodeCalculator" input_stream: "FILE:file" output_stream: "IMAGE:image" }
"#;

/// An image of 8 x 8 pixels.
fn small(format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let image = RgbImage::new(8, 8);
    image
        .write_to(&mut file, format)
        .expect("written to memory");
    file.into_inner()
}

/// A PNG file with one more chunk before its pixels.
fn png_with(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    let length = (data.len() as u32).to_be_bytes();
    let chunk = [&length[..], kind, data, &crc.sum().to_be_bytes()].concat();
    let mut file = small(ImageFormat::Png);
    // The signature and the header.
    file.splice(33..33, chunk);
    file
}

fn deflated(bytes: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(&vec![0; bytes])
        .expect("written to memory");
    encoder.finish().expect("written to memory")
}

fn jpeg_with_segments(kind: u8, data: &[u8], count: usize) -> Vec<u8> {
    let length = (data.len() as u16 + 2).to_be_bytes();
    let segment = [&[0xff, kind], &length[..], data].concat();
    let mut file = small(ImageFormat::Jpeg);
    file.splice(2..2, segment.repeat(count));
    file
}

/// A WebP file with a canvas of 8 x 8 pixels and these chunks.
fn webp(flags: u8, chunks: &[(&[u8; 4], u32, &[u8])]) -> Vec<u8> {
    let canvas = [flags, 0, 0, 0, 7, 0, 0, 7, 0, 0];
    let mut body = b"WEBP".to_vec();
    for (kind, length, data) in [(b"VP8X", 10, &canvas[..])].iter().chain(chunks) {
        body.extend(*kind);
        body.extend(length.to_le_bytes());
        body.extend(*data);
    }
    [b"RIFF", &(body.len() as u32).to_le_bytes()[..], &body].concat()
}

fn gif(frame: u16) -> Vec<u8> {
    let side = frame.to_le_bytes();
    let head = [
        b"GIF89a",
        &[8, 0, 8, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255][..],
    ]
    .concat();
    let place = [&[0x2c, 0, 0, 0, 0][..], &side, &side, &[0]].concat();
    [&head[..], &place, &[2, 2, 0x4c, 1, 0, 0x3b]].concat()
}

fn bmp(field: usize, value: u32) -> Vec<u8> {
    let mut file = small(ImageFormat::Bmp);
    file[field..field + 4].copy_from_slice(&value.to_le_bytes());
    file
}

/// The most bytes that were allocated while a file was decoded, and what was said of it.
fn cost(file: &[u8]) -> (usize, String) {
    let mut harness = Harness::global(GRAPH);
    let tensor = Tensor::from_strings([file]);
    let profiler = dhat::Profiler::builder().testing().build();
    harness.push("file", 0, tensor).settle();
    let most = HeapStats::get().max_bytes;
    drop(profiler);
    let said = if harness.ended() {
        harness.error().to_string()
    } else {
        String::new()
    };
    (most, said)
}

#[test]
fn a_bomb_of_each_format_takes_little_memory() {
    let _only = crate::ONE_AT_A_TIME.lock();
    let profile = [b"p\0\0".to_vec(), deflated(500 << 20)].concat();
    let text = [b"Comment\0\0".to_vec(), deflated(500 << 20)].concat();
    let xmp = [
        b"http://ns.adobe.com/xmp/extension/\0",
        &[b'a'; 32][..],
        &[0xff; 4],
        &vec![0; 4 + 60_000][..],
    ]
    .concat();
    let frame = [0, 0, 0, 0x9d, 1, 0x2a, 0xff, 0x3f, 0xff, 0x3f];
    let in_frame = [
        &[0; 6][..],
        &[7, 0, 0, 7, 0, 0],
        &[0; 4],
        b"VP8 ",
        &[10, 0, 0, 0],
        &frame,
    ]
    .concat();
    let animated = [
        (b"ANIM", 6, &[0; 6][..]),
        (b"ANMF", in_frame.len() as u32, &in_frame),
    ];
    let short = (b"EXIF", u32::MAX - 1, &[0; 4][..]);
    for (name, file, refusal) in [
        ("PNG, profile", png_with(b"iCCP", &profile), "color profile"),
        ("PNG, text", png_with(b"zTXt", &text), ""),
        (
            "PNG, plain text",
            png_with(b"tEXt", &vec![b'x'; 7 << 20]),
            "",
        ),
        ("PNG, Exif", png_with(b"eXIf", &vec![0; 7 << 20]), ""),
        (
            "JPEG, Exif",
            jpeg_with_segments(0xe1, &[b"Exif\0\0", &vec![0; 60_000][..]].concat(), 120),
            "",
        ),
        (
            "JPEG, profile",
            jpeg_with_segments(
                0xe2,
                &[b"ICC_PROFILE\0\x01\xff", &vec![0; 60_000][..]].concat(),
                120,
            ),
            "",
        ),
        ("JPEG, XMP", jpeg_with_segments(0xe1, &xmp, 120), ""),
        (
            "WebP, picture",
            webp(0, &[(b"VP8 ", 10, &frame)]),
            "another size than its canvas",
        ),
        (
            "WebP, frame",
            webp(2, &animated),
            "another size than its canvas",
        ),
        ("WebP, Exif", webp(8, &[short]), "ends inside of a chunk"),
        (
            "WebP, tables",
            webp(0, &[(b"VP8L", 2_000_000, &vec![0x2f; 2_000_000])]),
            "1,310,000 bytes of lossless data",
        ),
        ("GIF, frame", gif(65_535), "Memory limit"),
        ("BMP, colors", bmp(46, u32::MAX), ""),
        ("BMP, width", bmp(18, 60_000), "max_side"),
        ("BMP, header", bmp(14, u32::MAX), "cannot be decoded"),
    ] {
        assert!(file.len() <= 8 << 20, "{name}");
        let (most, said) = cost(&file);
        assert!(most < MOST, "{name}: {} MiB", most >> 20);
        assert!(said.contains(refusal), "{name}: {said}");
        assert_eq!(said.is_empty(), refusal.is_empty(), "{name}: {said}");
    }
}
