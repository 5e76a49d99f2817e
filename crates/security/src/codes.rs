//! Codes in pictures (QR codes). People follow them with their phones, past the protection of their computers.

use std::io::Cursor;
use std::panic::catch_unwind;

use image::{DynamicImage, GrayImage, ImageFormat, ImageReader, Rgb};
use url::Url;

use crate::bounds::{CODE_IMAGE_BYTES, CODE_IMAGE_PIXELS, CODE_IMAGES, CODE_MEMORY};
use crate::lookalike;

/// Reads the codes of the pictures of a message.
#[derive(Debug)]
pub(crate) struct CodeReader {
    /// Pictures that may still be read.
    left: usize,
    /// Pixels of them.
    left_pixels: u64,
}

impl CodeReader {
    pub(crate) const fn new() -> Self {
        Self { left: CODE_IMAGES, left_pixels: CODE_IMAGE_PIXELS }
    }

    /// Returns the addresses in the codes of a picture. Other files, and pictures that exceed the bounds, have none.
    pub(crate) fn addresses(&mut self, bytes: &[u8]) -> Vec<String> {
        let format = image::guess_format(bytes).ok();
        let is_read = matches!(format, Some(ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif));
        let Some(format) = format.filter(|_| is_read && bytes.len() <= CODE_IMAGE_BYTES && self.left > 0) else {
            return Vec::new();
        };
        self.left -= 1;
        let Some(pixels) = pixels(bytes, format).filter(|pixels| *pixels <= self.left_pixels) else {
            return Vec::new();
        };
        self.left_pixels -= pixels;
        // Decoders of pictures and codes index and multiply much. A panic of theirs on hostile bytes must not end the analysis of
        // the rest, which has no state that it could leave broken.
        catch_unwind(|| read(bytes, format).unwrap_or_default()).unwrap_or_default()
    }
}

/// Returns the number of pixels that the header names.
fn pixels(bytes: &[u8], format: ImageFormat) -> Option<u64> {
    let read = || ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().ok();
    let (width, height) = catch_unwind(read).ok()??;
    Some(u64::from(width) * u64::from(height)).filter(|pixels| *pixels > 0)
}

fn read(bytes: &[u8], format: ImageFormat) -> Option<Vec<String>> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(CODE_MEMORY);
    reader.limits(limits);
    let gray = gray(reader.decode().ok()?)?;
    let (width, height) = (usize::try_from(gray.width()).ok()?, usize::try_from(gray.height()).ok()?);
    // It takes no more than 32 corners and 8 codes, so its time is that of the pixels.
    let mut finder = quircs::Quirc::default();
    let payloads = finder.identify(width, height, &gray).filter_map(|code| code.ok()?.decode().ok());
    let mut addresses: Vec<_> = payloads.filter_map(|data| address(&data.payload)).collect();
    addresses.dedup();
    Some(addresses)
}

/// Returns shades of gray, with white behind what is transparent. The conversions of `image` take longer than all the rest.
fn gray(image: DynamicImage) -> Option<GrayImage> {
    let (width, height) = (image.width(), image.height());
    let shades = if image.color().has_alpha() {
        let shade = |[red, green, blue, alpha]: [u8; 4]| {
            let dark = u16::from(255 - luma(red, green, blue)) * u16::from(alpha) / 255;
            255 - dark.to_le_bytes()[0]
        };
        image.into_rgba8().pixels().map(|pixel| shade(pixel.0)).collect()
    } else if image.color().has_color() {
        image.into_rgb8().pixels().map(|Rgb([red, green, blue])| luma(*red, *green, *blue)).collect()
    } else {
        return Some(image.into_luma8());
    };
    GrayImage::from_raw(width, height, shades)
}

/// Returns the brightness of a colour, with the weights of ITU-R BT.601.
fn luma(red: u8, green: u8, blue: u8) -> u8 {
    let weighted = u16::from(red) * 77 + u16::from(green) * 150 + u16::from(blue) * 29;
    weighted.to_be_bytes()[0]
}

/// Returns the address in a code. Phones also follow those that leave out the scheme.
fn address(payload: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(payload).ok()?.trim();
    let is_web = |text: &str| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if is_web(text) {
        return Some(text.to_owned());
    }
    let host = lookalike::canonical(text.split(['/', '?', '#', ':']).next()?);
    let text = format!("http://{text}");
    (lookalike::is_host(&host) && is_web(&text)).then_some(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use image::{Luma, Rgba, RgbaImage};
    use proptest::prelude::*;

    use super::*;

    const ADDRESS: &str = "https://evil.example.com/login?id=123";

    /// Draws a code.
    fn drawn(text: &str, scale: u32) -> GrayImage {
        let code = qrcode::QrCode::new(text).unwrap();
        let width = u32::try_from(code.width()).unwrap();
        let side = (width + 8) * scale;
        GrayImage::from_fn(side, side, |x, y| {
            let [x, y] = [x, y].map(|at| (at / scale).checked_sub(4).filter(|at| *at < width));
            let is_dark = x.zip(y).is_some_and(|(x, y)| code[(x as usize, y as usize)] == qrcode::Color::Dark);
            Luma([if is_dark { 0 } else { 255 }])
        })
    }

    fn written(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let image = image.into();
        let image = if format == ImageFormat::Gif { image.into_rgba8().into() } else { image };
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn addresses(bytes: &[u8]) -> Vec<String> {
        CodeReader::new().addresses(bytes)
    }

    #[test]
    fn codes_with_addresses_are_read() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif] {
            for scale in [2, 3, 8] {
                assert_eq!(addresses(&written(drawn(ADDRESS, scale), format)), [ADDRESS], "{format:?} {scale}");
            }
        }
        assert_eq!(addresses(&written(drawn("HTTPS://EVIL.COM/", 4), ImageFormat::Png)), ["HTTPS://EVIL.COM/"]);
        assert_eq!(addresses(&written(drawn("evil.com/a", 4), ImageFormat::Png)), ["http://evil.com/a"]);
        let code = drawn(ADDRESS, 4);
        let transparent = RgbaImage::from_fn(code.width(), code.height(), |x, y| {
            Rgba([0, 0, 0, if code.get_pixel(x, y).0[0] == 0 { 255 } else { 0 }])
        });
        assert_eq!(addresses(&written(transparent, ImageFormat::Png)), [ADDRESS]);
    }

    #[test]
    fn other_codes_and_files_have_no_address() {
        for text in ["BCD\n002\n1\nSCT", "WIFI:T:WPA;S:net;P:secret;;", "12345", "ann@example.org"] {
            assert!(addresses(&written(drawn(text, 4), ImageFormat::Png)).is_empty(), "{text}");
        }
        assert!(addresses(&written(GrayImage::new(40, 40), ImageFormat::Png)).is_empty());
        assert!(addresses(b"\x89PNG\r\n\x1a\n").is_empty() && addresses(b"").is_empty());
    }

    #[test]
    fn pictures_beyond_the_bounds_are_not_decoded() {
        let mut reader = CodeReader::new();
        let code = written(drawn(ADDRESS, 4), ImageFormat::Png);
        for _ in 0..CODE_IMAGES {
            assert_eq!(reader.addresses(&code).len(), 1);
        }
        assert!(reader.addresses(&code).is_empty());
        // Large pictures have fewer pixels left for those behind them.
        let mut reader = CodeReader::new();
        let half = written(GrayImage::new(2048, 1025), ImageFormat::Png);
        assert!(reader.addresses(&half).is_empty() && reader.left_pixels == CODE_IMAGE_PIXELS - 2048 * 1025);
        assert!(reader.addresses(&half).is_empty() && reader.left_pixels == CODE_IMAGE_PIXELS - 2048 * 1025);
        assert_eq!(reader.addresses(&code).len(), 1);
        // The header names 60,000 by 60,000 pixels.
        let mut large = code;
        large[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
        assert!(addresses(&large).is_empty());
    }

    proptest! {
        #[test]
        fn any_picture_is_read(
            pixels in prop::collection::vec(prop::sample::select(vec![0_u8, 255, 128]), 64 * 64),
            cut in 0..2000_usize, places in prop::collection::vec((0..2000_usize, any::<u8>()), 0..8),
            format in prop::sample::select(vec![ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif]),
        ) {
            let mut image = drawn(ADDRESS, 2);
            let (side, all) = (image.width(), pixels.len());
            for (at, pixel) in pixels.iter().enumerate().take(all / 4) {
                let at = u32::try_from(at * 7).unwrap();
                image.put_pixel(at % side, at / side % side, Luma([*pixel]));
            }
            let mut bytes = written(image, format);
            let _ = read(&bytes, format);
            for (at, byte) in places {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            let _ = addresses(&bytes);
            bytes.truncate(cut);
            let _ = addresses(&bytes);
        }
    }
}
