//! A bitmap for plotters.

use std::convert::Infallible;

use ab_glyph::{Font, FontRef, Glyph, ScaleFont, point};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind};

type PixelResult = Result<(), DrawingErrorKind<Infallible>>;

/// A bitmap that starts white.
///
/// The bitmap backend of plotters places letters up to a pixel off, which makes small text hard to read.
pub struct Pixels<'a> {
    /// Red, green and blue, from 0 to 255.
    bytes: &'a mut Vec<u8>,
    size: (u32, u32),
    font: FontRef<'static>,
}

impl<'a> Pixels<'a> {
    /// Returns a bitmap that is drawn into `bytes`, row by row.
    pub fn new(bytes: &'a mut Vec<u8>, size: (u32, u32), font: FontRef<'static>) -> Self {
        bytes.clear();
        bytes.resize(size.0 as usize * size.1 as usize * 3, u8::MAX);
        Self { bytes, size, font }
    }

    /// Blends the color into a pixel. Pixels outside the bitmap are ignored.
    fn mix(&mut self, (x, y): BackendCoord, color: BackendColor) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.0 || y >= self.size.1 {
            return;
        }
        let start = (y as usize * self.size.0 as usize + x as usize) * 3;
        let (red, green, blue) = color.rgb;
        for (byte, new) in self.bytes[start..start + 3].iter_mut().zip([red, green, blue]) {
            let mixed = f64::from(*byte) * (1.0 - color.alpha) + f64::from(new) * color.alpha;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between two bytes")]
            let mixed = mixed.round() as u8;
            *byte = mixed;
        }
    }
}

impl DrawingBackend for Pixels<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> PixelResult {
        Ok(())
    }

    fn present(&mut self) -> PixelResult {
        Ok(())
    }

    fn draw_pixel(&mut self, index: BackendCoord, color: BackendColor) -> PixelResult {
        self.mix(index, color);
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "coordinates are whole pixels")]
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, index: BackendCoord) -> PixelResult {
        let font = self.font.clone();
        let font = font.as_scaled(style.size() as f32);
        let (mut glyphs, mut x) = (Vec::<Glyph>::new(), 0.0);
        for letter in text.chars() {
            let mut glyph = font.scaled_glyph(letter);
            if let Some(before) = glyphs.last() {
                x += font.kern(before.id, glyph.id);
            }
            glyph.position = point(x, font.ascent());
            x += font.h_advance(glyph.id);
            glyphs.push(glyph);
        }
        let anchor = style.anchor();
        let left = match anchor.h_pos {
            HPos::Left => 0.0,
            HPos::Center => x / 2.0,
            HPos::Right => x,
        };
        let top = match anchor.v_pos {
            VPos::Top => 0.0,
            VPos::Center => font.height() / 2.0,
            VPos::Bottom => font.height(),
        };
        let (left, top) = (index.0 - left.round() as i32, index.1 - top.round() as i32);
        let color = style.color();
        for glyph in glyphs {
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, coverage| {
                let [x, y] = [x, y].map(|offset| i32::try_from(offset).unwrap_or(i32::MAX));
                let index = (left + corner.x as i32 + x, top + corner.y as i32 + y);
                let color = BackendColor { alpha: color.alpha * f64::from(coverage.clamp(0.0, 1.0)), ..color };
                self.mix(index, color);
            });
        }
        Ok(())
    }
}
