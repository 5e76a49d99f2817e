mod lockouts;
mod login;
mod logout;
mod me;
mod password;
mod refresh;
mod signup;
