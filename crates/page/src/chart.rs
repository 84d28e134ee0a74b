//! Charts as SVG: areas that stand on each other, lines in steps, and marks.

use maud::{Markup, html};

use crate::model::{Lines, Millis};

/// The size of a chart, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 260.0;
/// Above the chart stand the marks, below it the times.
const TOP: f64 = 18.0;

/// One area: its name, its class, and its height at each time.
pub(crate) struct Area {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) heights: Vec<i64>,
}

/// A chart of numbers of pods over time.
pub(crate) struct Chart {
    pub(crate) from: Millis,
    pub(crate) to: Millis,
    /// The times of the heights, rising.
    pub(crate) times: Vec<Millis>,
    /// From the bottom to the top.
    pub(crate) areas: Vec<Area>,
    /// The lines, as they are from each time on.
    pub(crate) lines: Vec<(Millis, Lines)>,
    pub(crate) bounded: bool,
    pub(crate) marks: Vec<(Millis, String)>,
    /// The time that is looked at.
    pub(crate) at: Option<Millis>,
}

impl Chart {
    pub(crate) fn draw(&self, label: &str) -> Markup {
        let most_line = self.lines.iter().map(|(_, lines)| lines.most.max(lines.wanted)).max().unwrap_or_default();
        let stacked = |at: usize| self.areas.iter().map(|area| area.heights[at]).sum::<i64>();
        let most_area = (0..self.times.len()).map(stacked).max().unwrap_or_default();
        let top = (most_line.max(most_area).max(1) as f64) * 1.05;
        let x = |at: Millis| {
            let whole = (self.to - self.from).max(1) as f64;
            ((at - self.from) as f64 / whole).clamp(0.0, 1.0) * WIDTH
        };
        let y = |count: i64| TOP + (1.0 - count as f64 / top) * HEIGHT;
        let mut below = vec![0_i64; self.times.len()];
        html! {
            svg.chart viewBox={ "0 0 " (WIDTH) " " (TOP + HEIGHT) } role="img" aria-label=(label) {
                @for area in &self.areas {
                    path class=(area.class) d=(self.area(area, &mut below, &x, &y)) { title { (area.name) } }
                }
                @if self.bounded {
                    path.most d=(self.line(|lines| lines.most, &x, &y)) { title { "the most pods that there may be" } }
                    path.least d=(self.line(|lines| lines.least, &x, &y)) { title { "the fewest that must be available" } }
                }
                path.desired d=(self.line(|lines| lines.wanted, &x, &y)) { title { "desired" } }
                @for (at, text) in &self.marks {
                    g.mark {
                        path d=(format!("M{:.1} 4V{:.1}", x(*at), TOP + HEIGHT)) {}
                        circle cx=(format!("{:.1}", x(*at))) cy="6" r="5" { title { (text) } }
                    }
                }
                @if let Some(at) = self.at {
                    path.now d=(format!("M{:.1} {TOP}V{:.1}", x(at), TOP + HEIGHT)) {}
                }
                @for (count, place) in [(most_line, y(most_line))] {
                    text.axis x="4" y=(format!("{:.1}", place - 3.0)) { (count) }
                }
            }
        }
    }

    /// The outline of an area that stands on `below`, which it raises.
    fn area(&self, area: &Area, below: &mut [i64], x: &impl Fn(Millis) -> f64, y: &impl Fn(i64) -> f64) -> String {
        let mut upper = String::new();
        let mut lower = Vec::with_capacity(below.len());
        for (at, time) in self.times.iter().enumerate() {
            let (bottom, top) = (below[at], below[at] + area.heights[at]);
            let (left, right) = (x(*time), x(self.times.get(at + 1).copied().unwrap_or(self.to)));
            let sign = if at == 0 { 'M' } else { 'L' };
            upper.push_str(&format!("{sign}{left:.1} {:.1}L{right:.1} {:.1}", y(top), y(top)));
            lower.push(format!("L{right:.1} {:.1}L{left:.1} {:.1}", y(bottom), y(bottom)));
            below[at] = top;
        }
        lower.reverse();
        upper + &lower.concat() + "Z"
    }

    fn line(&self, value: impl Fn(Lines) -> i64, x: &impl Fn(Millis) -> f64, y: &impl Fn(i64) -> f64) -> String {
        let mut path = String::new();
        let mut seen = self.lines.iter().filter(|(at, _)| *at <= self.to).peekable();
        while let Some((at, lines)) = seen.next() {
            let until = seen.peek().map_or(self.to, |(next, _)| *next);
            if until < self.from {
                continue;
            }
            let sign = if path.is_empty() { 'M' } else { 'L' };
            let height = y(value(*lines));
            path.push_str(&format!("{sign}{:.1} {height:.1}L{:.1} {height:.1}", x((*at).max(self.from)), x(until)));
        }
        path
    }
}
