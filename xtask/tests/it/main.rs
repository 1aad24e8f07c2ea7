//! The rules of the house, as tests: each holds over the repository, and each can fail.

mod bench;
mod built;
mod deploy;
mod example;
mod gang;
mod house;
mod pages;
mod rules;
mod settings;
mod source;
mod steps;
