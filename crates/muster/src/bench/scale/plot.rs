//! The figures as a picture: time, CPU and memory against the number of pods, both axes logarithmic.

use std::fmt::Write as _;

use super::Findings;
use super::one::Figures;

/// Width and height of one panel with its margins, in units of the picture.
const PANEL: (f64, f64) = (330.0, 260.0);
/// Left, right, top and bottom of a panel's area of lines.
const MARGIN: (f64, f64, f64, f64) = (52.0, 14.0, 34.0, 38.0);

/// One panel: its title, and what it shows of a size.
type Panel = (&'static str, fn(&Figures) -> f64);

const PANELS: [Panel; 3] = [
    ("seconds until all pods are Ready", |size| size.ready_seconds),
    ("CPU microseconds a pod", |size| size.cpu_us_per_pod),
    ("resident MiB, at rest after it", |size| size.resident_mib),
];

/// The picture as SVG. It follows the reader's choice of light or dark.
pub(super) fn svg(findings: &Findings) -> String {
    let (width, height) = (PANEL.0 * PANELS.len() as f64, PANEL.1 + 24.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"11\">\n\
         <title>What pods cost on an embedded cluster, {} cores</title>\n\
         <style>text {{ fill: #333 }} .axis {{ stroke: #999; stroke-width: .5 }} .line {{ stroke: #2563eb; \
         stroke-width: 2; fill: none }} .point {{ fill: #2563eb }} @media (prefers-color-scheme: dark) {{ text {{ fill: \
         #ddd }} .line {{ stroke: #7aa7ff }} .point {{ fill: #7aa7ff }} }}</style>\n",
        findings.cores
    );
    for (at, panel) in PANELS.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate({} 0)\">", PANEL.0 * at as f64);
        draw(&mut svg, panel, &findings.sizes);
        svg.push_str("</g>\n");
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">pods, in Deployments of {}</text>\n</svg>",
        width / 2.0,
        PANEL.1 + 14.0,
        findings.pods_each
    );
    svg
}

fn draw(svg: &mut String, (title, value): &Panel, sizes: &[Figures]) {
    let (left, right, top, bottom) = MARGIN;
    let xs = Axis::of(sizes.iter().map(|size| f64::from(size.pods)), left, PANEL.0 - right);
    let ys = Axis::of(sizes.iter().map(value), PANEL.1 - bottom, top);
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"16\" font-weight=\"600\">{title}</text>");
    for power in ys.powers() {
        let y = ys.at(power);
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{left} {y:.1}H{:.1}\"/>", PANEL.0 - right);
        let label = label(power);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", left - 6.0, y + 4.0);
    }
    for power in xs.powers() {
        let x = xs.at(power);
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{x:.1} {top}V{:.1}\"/>", PANEL.1 - bottom);
        let (y, label) = (PANEL.1 - bottom + 16.0, label(power));
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>");
    }
    let points: Vec<(f64, f64)> = sizes.iter().map(|size| (xs.at(f64::from(size.pods)), ys.at(value(size)))).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = writeln!(svg, "<path class=\"line\" d=\"M{}\"/>", path.join("L"));
    for ((x, y), size) in points.iter().zip(sizes) {
        let (pods, value) = (size.pods, value(size));
        let _ = writeln!(
            svg,
            "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{pods} pods: {value:.1}</title></circle>"
        );
    }
}

/// A logarithmic axis over whole powers of ten.
struct Axis {
    /// The exponents of its ends.
    powers: (i32, i32),
    /// Where its ends are.
    from: f64,
    to: f64,
}

impl Axis {
    /// One that has room for these values. Those that are not above 0 are shown at its lower end.
    fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Exponents of figures that were measured are small.
        let low = if low.is_finite() { low.floor() as i32 } else { 0 };
        let high = if high.is_finite() { high.ceil() as i32 } else { 1 };
        Self { powers: (low, high.max(low + 1)), from, to }
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.powers.0..=self.powers.1).map(|power| 10_f64.powi(power))
    }

    fn at(&self, value: f64) -> f64 {
        let (low, high) = (f64::from(self.powers.0), f64::from(self.powers.1));
        let share = if value > 0.0 { (value.log10() - low) / (high - low) } else { 0.0 };
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }
}

/// `100`, `10k`, `1M`.
fn label(power: f64) -> String {
    match power {
        _ if power >= 1e6 => format!("{:.0}M", power / 1e6),
        _ if power >= 1e4 => format!("{:.0}k", power / 1e3),
        _ => format!("{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(pods: u32, figure: f64) -> Figures {
        Figures {
            pods,
            nodes: 3,
            ready_seconds: figure,
            pods_per_second: 1.0,
            cpu_seconds: 1.0,
            cpu_us_per_pod: 250.0,
            before_mib: 0.0,
            resident_mib: figure,
            peak_mib: figure,
            kib_per_pod: 1.0,
            rollout_alone_seconds: 1.0,
            rollout_seconds: 1.0,
        }
    }

    #[test]
    fn ten_times_as_much_is_as_far_everywhere() {
        let axis = Axis::of([1_000.0, 1_000_000.0].into_iter(), 0.0, 300.0);
        let places: Vec<f64> = axis.powers().map(|power| axis.at(power).round()).collect();
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0]);
        let flat = Axis::of([100.0].into_iter(), 300.0, 0.0);
        assert_eq!((flat.powers, flat.at(100.0).round(), flat.at(0.0)), ((2, 3), 300.0, 300.0));
    }

    #[test]
    fn every_size_is_a_point_of_every_panel() {
        let sizes = vec![size(1_000, 0.2), size(100_000, 25.0), size(1_000_000, 0.0)];
        let svg = svg(&Findings { cores: 2, pods_each: 1_000, sizes });
        assert_eq!(svg.matches("<circle").count(), 9, "{svg}");
        for label in [">100k<", ">1M<", ">1000<", "in Deployments of 1000", "2 cores"] {
            assert!(svg.contains(label), "no {label} in:\n{svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
