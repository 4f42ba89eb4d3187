//! Images.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use graphmill_engine::testing::{Harness, check};
use graphmill_engine::{Environment, Registry};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use proptest::prelude::*;

use graphmill_calculators::tensor::{Datatype, Tensor};

fn node(calculator: &str, ports: [&str; 2], options: &str) -> String {
    let [input, output] = ports;
    format!(
        r#"input_stream: "in" output_stream: "out"
           node {{ calculator: "{calculator}" input_stream: "{input}:in" output_stream: "{output}:out"
             node_options {{ [type.googleapis.com/graphmill.{calculator}Options] {{ {options} }} }} }}"#
    )
}

fn decode(options: &str) -> Harness {
    Harness::global(&node("ImageDecodeCalculator", ["FILE", "IMAGE"], options))
}

/// What comes out for an image.
fn through(calculator: &str, options: &str, image: Tensor) -> Result<Tensor, String> {
    let mut h = Harness::global(&node(calculator, ["IMAGE", "IMAGE"], options));
    h.push("in", 0, image);
    out(h)
}

fn out(mut h: Harness) -> Result<Tensor, String> {
    if h.ended() {
        return Err(h.error().to_string());
    }
    let packets = h.packets("out");
    Ok(packets[0].get::<Tensor>().expect("a tensor").clone())
}

fn pixels(shape: [usize; 3], data: &[u8]) -> Tensor {
    Tensor::new(Datatype::Uint8, shape, data.to_vec()).expect("a tensor")
}

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    Tensor::new(Datatype::Fp32, shape, data).expect("a tensor")
}

/// Red, green, blue and white, side by side.
fn file(format: ImageFormat) -> Vec<u8> {
    let colors = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]];
    let image = RgbImage::from_fn(4, 1, |x, _| Rgb(colors[x as usize]));
    let mut bytes = Vec::new();
    let image = DynamicImage::ImageRgb8(image);
    image
        .write_to(&mut Cursor::new(&mut bytes), format)
        .expect("an image");
    bytes
}

#[test]
fn a_file_becomes_pixels() {
    let png = file(ImageFormat::Png);
    let rgb = pixels([1, 4, 3], &[255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255]);
    let bgr = pixels([1, 4, 3], &[0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 255]);
    let gray = pixels([1, 4, 1], &[54, 182, 18, 255]);
    for (options, expected) in [("", &rgb), ("color: BGR", &bgr), ("color: GRAY", &gray)] {
        let mut h = decode(options);
        h.push("in", 0, Tensor::from_strings([&png]));
        assert_eq!(out(h).as_ref(), Ok(expected), "{options}");
    }
    let text = STANDARD.encode(&png);
    let bytes = Tensor::new(Datatype::Uint8, [png.len()], png.clone()).expect("a tensor");
    let mut h = decode("");
    h.push("in", 0, bytes)
        .push("in", 1, png)
        .push("in", 2, text.clone())
        .push("in", 3, format!("data:image/png;base64,{text}"));
    let all = [0, 1, 2, 3].map(|time| (time, rgb.clone()));
    h.expect("out", all);

    let mut h = decode("");
    h.push("in", 0, file(ImageFormat::Jpeg));
    assert_eq!(out(h).expect("an image").shape(), [1, 4, 3]);
}

#[test]
fn what_is_no_image_or_too_large_is_refused() {
    let png = file(ImageFormat::Png);
    let mut cut = png.clone();
    cut.truncate(png.len() - 20);
    // The head of a file with 60000 x 60000 pixels, of which there are none.
    let mut bomb = png.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let crc = crc32(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&crc.to_be_bytes());
    for (options, bytes, why) in [
        (
            "",
            b"hello, world".to_vec(),
            "expected a PNG, JPEG, WebP, GIF or BMP file",
        ),
        (
            "",
            Vec::new(),
            "expected a PNG, JPEG, WebP, GIF or BMP file",
        ),
        ("", cut, "cannot be decoded"),
        (
            "",
            bomb.clone(),
            "60000 x 60000 pixels, but a side can have at most 8192 (max_side)",
        ),
        (
            "max_side: 65000",
            bomb,
            "10800000000 bytes when it is decoded, more than 134217728 (max_decoded_bytes)",
        ),
        (
            "max_side: 3",
            png.clone(),
            "4 x 1 pixels, but a side can have at most 3",
        ),
        (
            "max_decoded_bytes: 11",
            png,
            "12 bytes when it is decoded, more than 11",
        ),
    ] {
        let mut h = decode(options);
        h.push("in", 0, bytes);
        let error = out(h).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
    let mut h = decode("");
    h.push("in", 0, Tensor::from_strings(["a", "b"]));
    assert!(out(h).expect_err("two").contains("BYTES with one element"));
}

/// The checksum of a chunk of a PNG file.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    })
}

#[test]
fn an_image_gets_another_size() {
    let image = pixels([1, 2, 1], &[10, 30]);
    let resize = |options| through("ImageResizeCalculator", options, image.clone());
    assert_eq!(
        resize("width: 1 height: 1 filter: BOX"),
        Ok(pixels([1, 1, 1], &[20]))
    );
    assert_eq!(
        resize("width: 4 height: 2 filter: NEAREST"),
        Ok(pixels([2, 4, 1], &[10, 10, 30, 30, 10, 10, 30, 30]))
    );
    assert_eq!(
        resize("width: 2 height: 3 fit: PAD fill: 7 filter: NEAREST"),
        Ok(pixels([3, 2, 1], &[7, 7, 10, 30, 7, 7]))
    );
    let wide = pixels([1, 4, 1], &[1, 10, 30, 2]);
    let cropped = through(
        "ImageResizeCalculator",
        "width: 2 height: 1 fit: CROP",
        wide.clone(),
    );
    assert_eq!(cropped.expect("an image").shape(), [1, 2, 1]);
    let padded = through(
        "ImageResizeCalculator",
        "width: 2 height: 4 fit: PAD fill: 5 filter: BOX",
        wide,
    );
    assert_eq!(padded.expect("an image").shape(), [4, 2, 1]);

    let two = pixels([1, 1, 2], &[1, 2]);
    let error = through("ImageResizeCalculator", "width: 2 height: 2", two).expect_err("channels");
    assert!(
        error.contains("1, 3 or 4 channels, but it has 2"),
        "{error}"
    );
    let float = floats(&[1, 1, 1], &[1.0]);
    let error = through("ImageResizeCalculator", "width: 2 height: 2", float).expect_err("floats");
    assert!(
        error.contains("expected an image of UINT8, but it is FP32"),
        "{error}"
    );
}

#[test]
fn sizes_are_required_and_bounded() {
    let environment = Environment::new(Registry::global());
    for (options, why) in [
        ("width: 2", "height"),
        ("width: 2 height: 20000", "from 0 to 16384"),
    ] {
        let graph = node("ImageResizeCalculator", ["IMAGE", "IMAGE"], options);
        let found = check(&graph, &environment);
        assert!(found.contains(why), "{found}");
    }
    let graph = node("ImageNormalizeCalculator", ["IMAGE", "IMAGE"], "std: 0");
    let found = check(&graph, &environment);
    assert!(found.contains("other than 0"), "{found}");
}

#[test]
fn pixels_become_numbers() {
    let image = pixels([1, 2, 2], &[0, 255, 51, 102]);
    let normalize = |options| through("ImageNormalizeCalculator", options, image.clone());
    let near = |found: Result<Tensor, String>, expected: [f32; 4]| {
        let found = found.expect("a tensor");
        let found = found
            .data()
            .as_chunks()
            .0
            .iter()
            .map(|it| f32::from_le_bytes(*it));
        for (found, expected) in found.zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
        }
    };
    near(normalize(""), [0.0, 1.0, 0.2, 0.4]);
    near(normalize("mean: 1 std: -1"), [1.0, 0.0, 0.8, 0.6]);
    near(
        normalize("scale: 1 mean: [0, 5] std: [1, 10]"),
        [0.0, 25.0, 51.0, 9.7],
    );
    let error = normalize("mean: [1, 2, 3]").expect_err("three");
    assert!(
        error.contains("2 channels, but `mean` of the node has 3 numbers"),
        "{error}"
    );
}

#[test]
fn dimensions_and_channels_change_places() {
    let image = pixels([1, 2, 3], &[1, 2, 3, 4, 5, 6]);
    let lay_out =
        |options, image: &Tensor| through("ImageLayoutCalculator", options, image.clone());
    let planes = lay_out("", &image).expect("an image");
    assert_eq!(
        (planes.shape(), &planes.data()[..]),
        (&[1, 3, 1, 2][..], &[1, 4, 2, 5, 3, 6][..])
    );
    assert_eq!(lay_out("from: NCHW to: HWC", &planes), Ok(image.clone()));
    assert_eq!(
        lay_out("to: HWC reverse_channels: true", &image),
        Ok(pixels([1, 2, 3], &[3, 2, 1, 6, 5, 4]))
    );
    assert_eq!(
        lay_out(
            "to: HWC grayscale: true",
            &pixels([1, 1, 3], &[100, 50, 200])
        ),
        Ok(pixels([1, 1, 1], &[82]))
    );
    let gray = lay_out(
        "to: HWC grayscale: true",
        &floats(&[1, 1, 3], &[1.0, 1.0, 1.0]),
    );
    assert_eq!(gray.expect("an image").shape(), [1, 1, 1]);
    for (options, image, why) in [
        ("from: NHWC", &image, "expected an image of 4 dimensions"),
        (
            "grayscale: true",
            &pixels([1, 1, 1], &[1]),
            "3 channels, but it has 1",
        ),
        ("", &Tensor::from_strings(["x"]), "dimensions and numbers"),
    ] {
        let error = lay_out(options, image).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Damaged files are refused or decoded, and bring nobody down.
    #[test]
    fn damaged_files_bring_nobody_down(
        jpeg in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = file(if jpeg { ImageFormat::Jpeg } else { ImageFormat::Png });
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut h = decode("");
        h.push("in", 0, bytes);
        let _ = out(h);
    }
}
