//! Arrays of Arrow, made of the rows of a batch.

use std::{collections::HashMap, sync::Arc};

use datafusion::arrow::{
    array::{ArrayRef, BooleanArray, DictionaryArray, Int64Array, StringArray, UInt32Array, UInt64Array},
    datatypes::UInt32Type,
};

/// Returns a column of unsigned integers.
pub(crate) fn unsigned<R>(rows: &[R], value: impl Fn(&R) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<UInt64Array>())
}

/// Returns a column of signed integers.
pub(crate) fn integers<R>(rows: &[R], value: impl Fn(&R) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<Int64Array>())
}

/// Returns a column of truth values.
pub(crate) fn booleans<R>(rows: &[R], value: impl Fn(&R) -> Option<bool>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<BooleanArray>())
}

/// Returns a column of texts, each of them once.
pub(crate) fn texts<R, T: AsRef<str>>(rows: &[R], value: impl Fn(&R) -> Option<T>) -> ArrayRef {
    let (mut all, mut numbers) = (Vec::<String>::new(), HashMap::<String, u32>::new());
    let codes: UInt32Array = rows
        .iter()
        .map(|row| {
            let text = value(row)?;
            Some(numbers.get(text.as_ref()).copied().unwrap_or_else(|| {
                let number = all.len() as u32;
                all.push(text.as_ref().to_owned());
                numbers.insert(text.as_ref().to_owned(), number);
                number
            }))
        })
        .collect();
    dictionary(codes, all)
}

/// Returns a column of texts that have numbers in the file: the text of each number in the rows is made once.
pub(crate) fn numbered_texts<R>(
    rows: &[R],
    number: impl Fn(&R) -> Option<u32>,
    text: impl Fn(u32) -> String,
) -> ArrayRef {
    let (mut all, mut codes) = (Vec::<String>::new(), HashMap::<u32, u32>::new());
    let codes: UInt32Array = rows
        .iter()
        .map(|row| {
            let number = number(row)?;
            Some(*codes.entry(number).or_insert_with(|| {
                all.push(text(number));
                all.len() as u32 - 1
            }))
        })
        .collect();
    dictionary(codes, all)
}

/// Returns a column that has the same text in `n` rows.
pub(crate) fn same_text(n: usize, text: Option<&str>) -> ArrayRef {
    let codes = std::iter::repeat_n(text.map(|_| 0), n).collect();
    dictionary(codes, text.map(str::to_owned).into_iter().collect())
}

fn dictionary(codes: UInt32Array, texts: Vec<String>) -> ArrayRef {
    let texts = Arc::new(StringArray::from(texts));
    Arc::new(DictionaryArray::<UInt32Type>::new(codes, texts))
}
