//! Rust whose names are hard to tell: closures, generics, traits, modules, inlined iterators.

use std::hint::black_box;

mod inner {
    pub trait Speak {
        fn speak(&self, value: u64) -> u64;
        fn twice(&self, value: u64) -> u64 {
            self.speak(value) + self.speak(value + 1)
        }
    }

    pub struct Dog<T>(pub T);

    impl<T: Into<u64> + Copy> Speak for Dog<T> {
        #[inline(never)]
        fn speak(&self, value: u64) -> u64 {
            self.0.into() * value
        }
    }

    #[inline(always)]
    pub fn always(value: u64) -> u64 {
        std::hint::black_box(value) ^ 3
    }
}

use inner::Speak;

#[inline(never)]
fn iterates(values: &[u64]) -> u64 {
    values.iter().map(|value| inner::always(*value)).filter(|value| value % 3 != 0).sum()
}

#[inline(never)]
fn dynamic(speaker: &dyn Speak) -> u64 {
    let closure = |value: u64| speaker.twice(value) + inner::always(value);
    (0..black_box(5)).map(closure).fold(0, |sum, each| sum + each)
}

fn main() {
    let values: Vec<u64> = (0..black_box(10)).collect();
    println!("{} {}", iterates(&values), dynamic(&inner::Dog(3u32)));
}
