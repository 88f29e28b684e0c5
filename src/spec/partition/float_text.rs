//! The decimal digits that Java before version 19 shows for a float: not always the shortest ones (`2.0E23` comes out
//! as `1.9999999999999998E23`), and folders of partitions are named by them.
//!
//! A value is `fraction * 2^(exponent - 52)` with bit 52 set. Digits are made one by one from the quotient of two whole
//! numbers (Steele and White) until the rest is within half a unit of the last place. What is particular to Java is
//! kept: values whose digits are all before the point are cut by a table, at least two digits come out in the
//! scientific range, and the width of the whole numbers decides whether "within" includes the bound.

use std::cmp::Ordering;
use std::f64::consts::LOG10_2;

/// Digits `d1 d2 d3 ..`, and where the point stands: the value is `0.d1d2d3.. * 10^point`.
pub(super) struct Decimal {
    pub digits: String,
    pub point: i32,
}

/// Digits of a positive, finite value.
pub(super) fn double_digits(value: f64) -> Decimal {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if exponent == 0 {
        let shift = fraction.leading_zeros() as i32 - 11;
        return digits(fraction << shift, 1 - shift - 1_023, 64 - fraction.leading_zeros() as i32);
    }
    digits(fraction | 1 << 52, exponent - 1_023, 53)
}

/// Digits of a positive, finite value.
pub(super) fn float_digits(value: f32) -> Decimal {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 23 & 0xff) as i32, bits & ((1 << 23) - 1));
    if exponent == 0 {
        let shift = fraction.leading_zeros() as i32 - 8;
        return digits(u64::from(fraction << shift) << 29, 1 - shift - 127, 32 - fraction.leading_zeros() as i32);
    }
    digits(u64::from(fraction | 1 << 23) << 29, exponent - 127, 24)
}

/// Bits of 5^n; what is beyond the exact part only has to be too many.
fn bits_of_5_pow(n: i32) -> i32 {
    match n {
        0 => 0,
        1..=26 => (5_u64.pow(n as u32)).ilog2() as i32 + 1,
        _ => n * 3,
    }
}

/// Digits of `fraction * 2^(exponent - 52)`, of which the first `significant` bits are known.
fn digits(fraction: u64, exponent: i32, significant: i32) -> Decimal {
    let fraction_bits = 53 - fraction.trailing_zeros() as i32;
    let bits_behind_point = (fraction_bits - exponent - 1).max(0);
    if (-21..=62).contains(&exponent) && bits_behind_point == 0 && fraction_bits < 64 {
        return whole_digits(fraction, exponent, significant);
    }
    // A guess that is right or one too great.
    let estimate = ((f64::from_bits(1_023 << 52 | fraction & ((1 << 52) - 1)) - 1.5) * 0.289_529_654
        + 0.176_091_259
        + f64::from(exponent) * LOG10_2)
        .floor() as i32;
    // value = B / S * 10^estimate, and M is half a unit of the last place: all are products of powers of 2 and 5.
    let (b5, s5) = ((-estimate).max(0), estimate.max(0));
    let (mut b2, mut s2) = (b5 + bits_behind_point + exponent, s5 + bits_behind_point);
    let mut m2 = b2 - significant;
    b2 -= fraction_bits - 1;
    let common = b2.min(s2);
    b2 -= common;
    s2 -= common;
    m2 -= common;
    if fraction_bits == 1 {
        // Below a power of two the next number is only half as far.
        m2 -= 1;
    }
    if m2 < 0 {
        b2 -= m2;
        s2 -= m2;
        m2 = 0;
    }
    let fraction = fraction >> fraction.trailing_zeros();
    let bits_b = fraction_bits + b2 + bits_of_5_pow(b5);
    let bits_10_s = s2 + 1 + bits_of_5_pow(s5 + 1);
    match bits_b.max(bits_10_s) {
        ..64 => {
            let pow = |fives: i32, twos: i32| 5_i64.pow(fives as u32) << twos;
            let (b, s, m) = (fraction as i64 * pow(b5, b2), pow(s5, s2), pow(b5, m2));
            quotient_digits(Narrow { b, s, m, word: if bits_b.max(bits_10_s) < 32 { 32 } else { 64 } }, estimate)
        }
        _ => {
            let (s, m) = (Whole::product(1, s5, s2), Whole::product(1, b5, m2));
            let mut ten_s = s.clone();
            ten_s.multiply(10);
            quotient_digits(Wide { b: Whole::product(fraction, b5, b2), s, m, ten_s }, estimate)
        }
    }
}

/// Digits of a whole number below 2^63. Digits beyond what the bits tell are cut, with rounding.
fn whole_digits(fraction: u64, exponent: i32, significant: i32) -> Decimal {
    let beyond = exponent - significant - 1;
    let cut = if exponent > significant && beyond > 1 { (f64::from(beyond) * LOG10_2) as u32 } else { 0 };
    let mut value = if exponent >= 52 { fraction << (exponent - 52) } else { fraction >> (52 - exponent) };
    if cut > 0 {
        let unit = 10_u64.pow(cut);
        value = value / unit + u64::from(value % unit >= unit / 2);
    }
    let all = value.to_string();
    let point = all.len() as i32 + cut as i32;
    Decimal { digits: all.trim_end_matches('0').to_owned(), point }
}

/// The division `b / s`, which is below 10, where `b - m` and `b + m` are as far as a neighbour's digits go.
trait Division {
    /// The next digit; whether the rest is within `m` of it, and whether it is within `m` of the digit above.
    fn next(&mut self) -> (u8, bool, bool);
    /// The rest against half a unit of the last digit.
    fn rest_to_half(&self) -> Ordering;
}

/// A division that fits machine words of 32 or 64 bits. Sums that pass the word wrap, as they do in Java, which then
/// misses that the digit above is near.
struct Narrow {
    b: i64,
    s: i64,
    m: i64,
    word: u32,
}

impl Narrow {
    fn wrap(&self, value: i64) -> i64 {
        if self.word == 32 { i64::from(value as i32) } else { value }
    }
}

impl Division for Narrow {
    fn next(&mut self) -> (u8, bool, bool) {
        let digit = (self.b / self.s) as u8;
        self.b = 10 * (self.b % self.s);
        self.m = self.wrap(self.m.wrapping_mul(10));
        if self.m <= 0 {
            return (digit, true, true);
        }
        (digit, self.b < self.m, self.wrap(self.b.wrapping_add(self.m)) > 10 * self.s)
    }

    fn rest_to_half(&self) -> Ordering {
        self.b.cmp(&(10 * self.s - self.b))
    }
}

/// A division of numbers of any size.
struct Wide {
    b: Whole,
    s: Whole,
    m: Whole,
    ten_s: Whole,
}

impl Division for Wide {
    fn next(&mut self) -> (u8, bool, bool) {
        let digit = self.b.divide(&self.s);
        self.b.multiply(10);
        self.m.multiply(10);
        (digit, self.b < self.m, self.b.plus(&self.m) >= self.ten_s)
    }

    fn rest_to_half(&self) -> Ordering {
        self.b.plus(&self.b).cmp(&self.ten_s)
    }
}

/// Digits of the division until they tell the value from its neighbours.
fn quotient_digits(mut division: impl Division, estimate: i32) -> Decimal {
    let mut exponent = estimate;
    let mut digits = Vec::new();
    let (digit, mut low, mut high) = division.next();
    if digit == 0 && !high {
        // The estimate was one too great.
        exponent -= 1;
    } else {
        digits.push(digit);
    }
    if !(-3..8).contains(&exponent) {
        // One digit behind the point at least.
        (low, high) = (false, false);
    }
    while !low && !high {
        let (digit, below, above) = division.next();
        digits.push(digit);
        (low, high) = (below, above);
    }
    let up = high
        && match (low, division.rest_to_half()) {
            (true, Ordering::Less) => false,
            (true, Ordering::Equal) => digits.last().is_some_and(|digit| digit % 2 == 1),
            _ => true,
        };
    if up && round_up(&mut digits) {
        exponent += 1;
    }
    Decimal { digits: digits.iter().map(|digit| char::from(b'0' + digit)).collect(), point: exponent + 1 }
}

/// Adds one to the last digit; whether that made `1000..` of `999..`.
fn round_up(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return false;
        }
        *digit = 0;
    }
    if let Some(first) = digits.first_mut() {
        *first = 1;
    }
    true
}

/// A whole number of any size: 32 bits a limb, the least first, no zero at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Whole(Vec<u32>);

impl Whole {
    /// `value * 5^fives * 2^twos`
    fn product(value: u64, fives: i32, twos: i32) -> Self {
        let mut whole = Self(vec![value as u32, (value >> 32) as u32]);
        whole.trim();
        let mut fives = fives.max(0) as u32;
        while fives > 0 {
            let step = fives.min(13);
            whole.multiply(5_u32.pow(step));
            fives -= step;
        }
        let twos = twos.max(0) as u32;
        whole.multiply(1 << (twos % 32));
        whole.0.splice(0..0, std::iter::repeat_n(0, (twos / 32) as usize));
        whole
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0;
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let mut sum: Vec<u32> = (0..self.0.len().max(other.0.len()))
            .map(|i| {
                let limb = |whole: &Self| u64::from(whole.0.get(i).copied().unwrap_or(0));
                let sum = limb(self) + limb(other) + carry;
                carry = sum >> 32;
                sum as u32
            })
            .collect();
        if carry > 0 {
            sum.push(carry as u32);
        }
        Self(sum)
    }

    /// The quotient, which is below 10; the rest is left.
    fn divide(&mut self, divisor: &Self) -> u8 {
        let mut quotient = 0;
        while *self >= *divisor {
            let mut borrow = 0;
            for (i, limb) in self.0.iter_mut().enumerate() {
                let difference = i64::from(*limb) - i64::from(divisor.0.get(i).copied().unwrap_or(0)) - borrow;
                *limb = difference as u32;
                borrow = i64::from(difference < 0);
            }
            self.trim();
            quotient += 1;
        }
        quotient
    }
}

impl Ord for Whole {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Whole {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
