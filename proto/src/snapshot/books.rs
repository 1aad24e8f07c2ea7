//! The two books.

use scheduler_core::id::{BudgetId, Name};
use scheduler_core::ledger::{Account, Class, Curve, Merged, PoolBooks, SetAside, WeighedCurves};
use scheduler_core::spec::Tier;
use scheduler_core::table::Table;
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span, Timestamp, Weight};

use crate::error::Error;
use crate::state::v1 as state;
use crate::wire::{Wire, moment, name, required};
use crate::word::weight;

/// A pool's books without its classes and accounts, which are records of their own.
pub(super) struct PoolParts {
    pub(super) since: Option<Timestamp>,
    pub(super) installed: Curve,
    pub(super) reweighed_at: Timestamp,
}

pub(super) fn tier(is_funded: bool) -> Tier {
    if is_funded { Tier::Funded } else { Tier::Free }
}

pub(super) fn read_merged(m: &state::Meta) -> Result<Merged, Error> {
    if m.merged_step_ms == 0 {
        return Err(Error::bad("merged_step", "zero"));
    }
    Ok(Merged { until: moment(m.merged_until_ms), step: Span::from_millis(m.merged_step_ms) })
}

pub(super) fn pool(name: &Name, pool: &PoolBooks) -> state::Pool {
    state::Pool {
        name: name.to_string(),
        since_ms: pool.since().map(Timestamp::as_millis),
        installed: Some(curve(pool.installed_curve())),
        reweighed_at_ms: pool.reweighed_at().as_millis(),
    }
}

pub(super) fn read_pool(m: state::Pool) -> Result<(Name, PoolParts), Error> {
    let installed = read_curve(required("installed", m.installed)?)?;
    let (since, reweighed_at) = (m.since_ms.map(moment), moment(m.reweighed_at_ms));
    Ok((name("name", &m.name)?, PoolParts { since, installed, reweighed_at }))
}

pub(super) fn weighed(pool: &Name, weight: Weight, of: &WeighedCurves) -> state::WeighedCurves {
    state::WeighedCurves {
        pool: pool.to_string(),
        weight_milli: weight.milli(),
        installed: Some(curve(&of.installed)),
        unavailable: Some(curve(&of.unavailable)),
    }
}

pub(super) fn read_weighed(m: state::WeighedCurves) -> Result<(Name, Weight, WeighedCurves), Error> {
    let installed = read_curve(required("installed", m.installed)?)?;
    let unavailable = read_curve(required("unavailable", m.unavailable)?)?;
    let curves = WeighedCurves { installed, unavailable };
    Ok((name("pool", &m.pool)?, weight(m.weight_milli)?, curves))
}

pub(super) fn class_curve(pool: &Name, class: Class, of: &Curve) -> state::ClassCurve {
    let (kind, budget, is_funded) = match class {
        Class::Idle => (state::Class::Idle, 0, false),
        Class::Unavailable => (state::Class::Unavailable, 0, false),
        Class::Handover => (state::Class::Handover, 0, false),
        Class::Overhead => (state::Class::Overhead, 0, false),
        Class::Occupied { budget, tier } => (state::Class::Occupied, budget.get(), tier == Tier::Funded),
    };
    state::ClassCurve {
        class: kind.into(),
        budget,
        funded: is_funded,
        curve: Some(curve(of)),
        pool: pool.to_string(),
    }
}

pub(super) fn read_class_curve(m: state::ClassCurve) -> Result<(Name, Class, Curve), Error> {
    let class = class(&m)?;
    Ok((name("pool", &m.pool)?, class, read_curve(required("curve", m.curve)?)?))
}

pub(super) fn demand(pool: &Name, budget: BudgetId, of: &Curve) -> state::DemandCurve {
    state::DemandCurve { pool: pool.to_string(), budget: budget.get(), curve: Some(curve(of)) }
}

pub(super) fn read_demand(m: state::DemandCurve) -> Result<(Name, BudgetId, Curve), Error> {
    let curve = read_curve(required("curve", m.curve)?)?;
    Ok((name("pool", &m.pool)?, BudgetId::new(m.budget), curve))
}

fn class(m: &state::ClassCurve) -> Result<Class, Error> {
    Ok(match m.class() {
        state::Class::Unspecified => return Err(Error::Missing("class")),
        state::Class::Idle => Class::Idle,
        state::Class::Unavailable => Class::Unavailable,
        state::Class::Handover => Class::Handover,
        state::Class::Overhead => Class::Overhead,
        state::Class::Occupied => Class::Occupied { budget: BudgetId::new(m.budget), tier: tier(m.funded) },
    })
}

fn curve(curve: &Curve) -> state::Curve {
    let point = |(at, total): (&Timestamp, &u128)| state::Point {
        at_ms: at.as_millis(),
        total: Some(ChargeMillis::new(*total).to_wire()),
    };
    state::Curve { points: curve.points().iter().map(point).collect(), rate: curve.rate() }
}

fn read_curve(m: state::Curve) -> Result<Curve, Error> {
    let mut points = Table::default();
    for point in m.points {
        points.insert(moment(point.at_ms), ChargeMillis::from_wire(required("total", point.total)?)?.get());
    }
    Ok(Curve::from_parts(points, m.rate))
}

pub(super) fn account(pool: &Name, budget: BudgetId, tier: Tier, account: &Account) -> state::Account {
    let aside = account.aside();
    let end = |(until, rate): (&Timestamp, &MilliGpus)| state::RateUntil {
        until_ms: until.as_millis(),
        rate: rate.get(),
    };
    state::Account {
        pool: pool.to_string(),
        budget: budget.get(),
        funded: tier == Tier::Funded,
        curve: Some(curve(account.curve())),
        fixed: Some(aside.fixed().to_wire()),
        ends: aside.ends().iter().map(end).collect(),
        horizon_ms: aside.horizon().as_millis(),
    }
}

/// A pool, its account's key, and the account.
pub(super) type ReadAccount = (Name, (BudgetId, Tier), Account);

pub(super) fn read_account(m: state::Account) -> Result<ReadAccount, Error> {
    let ends = m.ends.iter().map(|end| (moment(end.until_ms), MilliGpus::new(end.rate))).collect();
    let fixed = ChargeMillis::from_wire(required("fixed", m.fixed)?)?;
    let aside = SetAside::from_parts(fixed, ends, moment(m.horizon_ms));
    let account = Account::from_parts(read_curve(required("curve", m.curve)?)?, aside);
    Ok((name("pool", &m.pool)?, (BudgetId::new(m.budget), tier(m.funded)), account))
}
