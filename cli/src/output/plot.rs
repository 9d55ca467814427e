//! Charts of histograms as PNG or SVG, with a panel for each tensor.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use ab_glyph::FontRef;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tensorfile::stats::Histogram;

use crate::args::display_name;
use crate::exit::{At, Failure, Outcome};
use crate::output::numbers::{digits_between, general};
use crate::output::pixels::Pixels;

/// The maximum number of panels.
pub const MAX_PANELS: usize = 24;

const COLUMNS: usize = 4;
const PANEL: (u32, u32) = (480, 320);
/// The size of an only panel.
const WIDE: (u32, u32) = (800, 480);
const CAPTION: u32 = 40;

const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(225, 225, 225);
const BARS: RGBColor = RGBColor(66, 120, 176);

/// The file format of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartFormat {
    Png,
    Svg,
}

impl ChartFormat {
    /// Returns the format of the path's extension.
    pub fn from_path(path: &Path) -> Outcome<Self> {
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "png" => Ok(Self::Png),
            "svg" => Ok(Self::Svg),
            _ => Err(Failure::usage(format_args!(
                "--plot {}: the extension must be .png or .svg",
                display_name(path).display()
            ))),
        }
    }
}

/// The histogram of a tensor.
#[derive(Debug)]
pub struct Panel<'a> {
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    pub histogram: &'a Histogram,
}

/// Draws the panels into a file.
pub fn plot(path: &Path, caption: &str, panels: &[Panel<'_>]) -> Outcome<()> {
    let format = ChartFormat::from_path(path)?;
    let columns = (1..COLUMNS).find(|columns| columns * columns >= panels.len()).unwrap_or(COLUMNS);
    let rows = panels.len().div_ceil(columns);
    let panel = if panels.len() == 1 { WIDE } else { PANEL };
    let [columns_u32, rows_u32] = [columns, rows].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let size = (panel.0 * columns_u32, panel.1 * rows_u32 + CAPTION);
    // Drawn in memory, so that a failure leaves no file behind.
    let drawn = match format {
        ChartFormat::Svg => {
            let mut text = String::new();
            draw(SVGBackend::with_string(&mut text, size), caption, panels, (rows, columns)).map(|()| text.into_bytes())
        }
        ChartFormat::Png => {
            let mut pixels = Vec::new();
            font().and_then(|font| {
                draw(Pixels::new(&mut pixels, size, font), caption, panels, (rows, columns))?;
                png(&pixels, size).map_err(io::Error::other)
            })
        }
    };
    tensorfile::file::atomic::write(path, &drawn.at(path)?).at(path)
}

/// Returns the font that the program contains, so that charts look the same on every system.
fn font() -> io::Result<FontRef<'static>> {
    FontRef::try_from_slice(dejavu::sans::regular()).map_err(io::Error::other)
}

fn png(pixels: &[u8], size: (u32, u32)) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(bytes)
}

type Area<B> = DrawingArea<B, Shift>;
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

fn draw<B: DrawingBackend>(backend: B, caption: &str, panels: &[Panel<'_>], grid: (usize, usize)) -> io::Result<()> {
    // plotters measures texts with the registered font.
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| io::Error::other("the font is invalid"))?;
    draw_panels(&backend.into_drawing_area(), caption, panels, grid)
        .map_err(|error| io::Error::other(error.to_string()))
}

fn draw_panels<B: DrawingBackend>(
    area: &Area<B>,
    caption: &str,
    panels: &[Panel<'_>],
    grid: (usize, usize),
) -> Drawn<B> {
    area.fill(&WHITE)?;
    let (head, body) = area.split_vertically(CAPTION);
    write_text(&head, caption, (16, 14), &text(18, INK))?;
    for (area, panel) in body.split_evenly(grid).iter().zip(panels) {
        draw_panel(area, panel)?;
    }
    area.present()
}

fn draw_panel<B: DrawingBackend>(area: &Area<B>, panel: &Panel<'_>) -> Drawn<B> {
    let (head, body) = area.split_vertically(46);
    write_text(&head, &panel.title, (16, 8), &text(15, INK))?;
    write_text(&head, &panel.subtitle, (16, 28), &text(12, FAINT))?;

    let counts = panel.histogram.counts();
    let axis = XAxis::of(panel.histogram);
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut chart = ChartBuilder::on(&body)
        .margin_top(4)
        .margin_right(24)
        .margin_bottom(6)
        .x_label_area_size(24)
        .y_label_area_size(60)
        .build_cartesian_2d(axis.start..axis.end, 0.0..most as f64 * 1.05)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(FAINT)
        .x_labels(5)
        // Small counts have no label between two whole numbers.
        .y_labels(usize::try_from(most).map_or(5, |most| most.saturating_add(1).min(5)))
        .label_style(text(12, INK))
        .x_label_formatter(&|x| axis.label(*x))
        .y_label_formatter(&|count| short(*count))
        .draw()?;
    let bins = counts.len() as f64;
    let edge = |index: usize| axis.first + (axis.last - axis.first) * (index as f64 / bins);
    chart.draw_series(
        counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, &count)| {
            Rectangle::new([(edge(index), 0.0), (edge(index + 1), count as f64)], BARS.filled())
        }),
    )?;
    Ok(())
}

/// The x axis.
struct XAxis {
    start: f64,
    end: f64,
    /// The left end of the first bar.
    first: f64,
    /// The right end of the last bar.
    last: f64,
    /// The numbers at the ends of the axis. `start` and `end` differ from them if plotters cannot place labels between
    /// them.
    numbers: (f64, f64),
}

impl XAxis {
    fn of(histogram: &Histogram) -> Self {
        let edges = histogram.edges();
        let (min, max) = (edges[0], edges[edges.len() - 1]);
        if min == max {
            // Places the only number in the middle.
            let around = |fraction: f64| {
                let length = (min.abs() / 2.0).max(0.5) * fraction;
                ((min - length).max(f64::MIN), (min + length).min(f64::MAX))
            };
            let ((start, end), (first, last)) = (around(1.0), around(0.1));
            return Self { start, end, first, last, numbers: (start, end) };
        }
        let (length, largest) = (max - min, min.abs().max(max.abs()));
        // plotters searches labels in steps. It never ends if a step is too small to change the number.
        let has_labels = length.is_finite() && length > 1e-280 && length > largest * 1e-6;
        let (start, end) = if has_labels { (min, max) } else { (0.0, 1.0) };
        Self { start, end, first: start, last: end, numbers: (min, max) }
    }

    fn label(&self, index: f64) -> String {
        let (min, max) = self.numbers;
        let fraction = (index - self.start) / (self.end - self.start);
        match (self.start, self.end) == self.numbers {
            // Steps from the first number rarely hit 0 exactly.
            true if index.abs() < (max - min) * 1e-9 => "0".to_owned(),
            true => general(index, digits_between(min, max)),
            false => general(min * (1.0 - fraction) + max * fraction, digits_between(min, max)),
        }
    }
}

/// Formats a count in a few characters: `1.5M`.
fn short(count: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(unit, _)| count >= *unit) {
        Some((unit, letter)) => format!("{}{letter}", general(count / unit, 4)),
        None => general(count, 4),
    }
}

fn text(size: u32, color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&color)
}

/// Writes the text, with an ellipsis in the middle if it is too wide.
fn write_text<B: DrawingBackend>(area: &Area<B>, text: &str, index: (i32, i32), style: &TextStyle<'_>) -> Drawn<B> {
    let (width, _) = area.dim_in_pixel();
    let room = width.saturating_sub(32);
    let mut shown = text.to_owned();
    let chars: Vec<char> = text.chars().collect();
    let mut kept = chars.len().min(500);
    while kept > 2 && (shown.len() > 4000 || area.estimate_text_size(&shown, style)?.0 > room) {
        kept -= 1;
        let (front, back) = (kept / 2, kept - kept / 2);
        shown = chars[..front].iter().chain(&['…']).chain(&chars[chars.len() - back..]).collect();
    }
    area.draw_text(&shown, &style.pos(Pos::new(HPos::Left, VPos::Top)), index)
}
