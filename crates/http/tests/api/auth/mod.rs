mod login;
mod logout;
mod me;
mod refresh;
mod signup;
