//! One trait for both directions, and the conversions of ids and quantities.

use std::collections::BTreeMap;

use scheduler_core::id::{Label, Name};
use scheduler_core::principal::AccountName;
use scheduler_core::unit::{ChargeMillis, Share, Span, Timestamp};

use crate::error::Error;
use crate::log::v1 as log;
use crate::v1;

/// A core value with a message of its own.
pub trait Wire: Sized {
    /// Its message.
    type Message;

    /// Returns the value as its message.
    fn to_wire(&self) -> Self::Message;

    /// Checks a message and takes it as a value.
    ///
    /// # Errors
    /// When a field is missing or can't be.
    fn from_wire(message: Self::Message) -> Result<Self, Error>;
}

impl Wire for ChargeMillis {
    type Message = log::U128;

    fn to_wire(&self) -> log::U128 {
        let bytes = self.get().to_be_bytes();
        let half = |part: &[u8]| part.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        log::U128 { high: half(&bytes[..8]), low: half(&bytes[8..]) }
    }

    fn from_wire(message: log::U128) -> Result<Self, Error> {
        Ok(Self::new(u128::from(message.high) << 64 | u128::from(message.low)))
    }
}

pub(crate) fn required<T>(field: &'static str, value: Option<T>) -> Result<T, Error> {
    value.ok_or(Error::Missing(field))
}

/// Reads several names.
pub(crate) fn names(field: &'static str, texts: &[String]) -> Result<Vec<Name>, Error> {
    texts.iter().map(|text| name(field, text)).collect()
}

pub(crate) fn name(field: &'static str, text: &str) -> Result<Name, Error> {
    Name::new(text).map_err(|error| Error::bad(field, error.to_string()))
}

pub(crate) fn label(field: &'static str, text: &str) -> Result<Label, Error> {
    Label::new(text).map_err(|error| Error::bad(field, error.to_string()))
}

pub(crate) fn account(field: &'static str, text: &str) -> Result<AccountName, Error> {
    AccountName::new(text).ok_or_else(|| Error::bad(field, "not the name of a Unix account"))
}

pub(crate) fn span(field: &'static str, ms: u64) -> Result<Span, Error> {
    let span = Span::from_millis(ms);
    if span > Span::MAX { Err(Error::bad(field, "longer than ten years")) } else { Ok(span) }
}

pub(crate) fn share(field: &'static str, ppm: u32) -> Result<Share, Error> {
    Share::from_ppm(ppm).ok_or_else(|| Error::bad(field, "more than the whole"))
}

pub(crate) fn pool_shares(of: &BTreeMap<Name, Share>) -> Vec<v1::PoolShare> {
    of.iter().map(|(pool, share)| v1::PoolShare { pool: pool.to_string(), share_ppm: share.ppm() }).collect()
}

pub(crate) fn read_pool_shares(of: &[v1::PoolShare]) -> Result<BTreeMap<Name, Share>, Error> {
    of.iter().map(|one| Ok((name("pools", &one.pool)?, share("pools", one.share_ppm)?))).collect()
}

pub(crate) fn moment(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

pub(crate) fn narrow<T: TryFrom<u32>>(field: &'static str, number: u32) -> Result<T, Error> {
    T::try_from(number).map_err(|_| Error::bad(field, format!("{number} is too large")))
}

/// Reads an id of fixed length through its `from_slice`.
pub(crate) fn fixed<T>(field: &'static str, bytes: &[u8], read: fn(&[u8]) -> Option<T>) -> Result<T, Error> {
    read(bytes).ok_or_else(|| Error::bad(field, format!("{} bytes are not its length", bytes.len())))
}
