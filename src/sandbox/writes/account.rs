//! The account's own record. A password is accepted and not stored.

use super::{Answer, WriteHandler, set};
use crate::sandbox::fields::RequestRefusal;

impl WriteHandler<'_> {
    pub(super) fn update_account(&mut self, body: Option<&[u8]>) -> Result<Answer, RequestRefusal> {
        let fields = self.fields(body, &["email", "password"])?;
        let email = fields.text("email")?;
        let password = fields.text("password")?;
        if email.is_none() && password.is_none() {
            return Err(RequestRefusal::bad("Please send an email, a password or both."));
        }
        if email.is_some_and(|email| !is_email(email)) {
            return Err(RequestRefusal::bad("Please enter a valid email."));
        }
        if password.is_some_and(str::is_empty) {
            return Err(RequestRefusal::bad("The password cannot be empty."));
        }
        let account = &mut self.store.account;
        set(&mut account.email, &mut account.extra, "email", email.map(str::to_owned));
        Ok(Answer::message("Account has been successfully updated."))
    }
}

fn is_email(text: &str) -> bool {
    let parts = text.split_once('@');
    parts.is_some_and(|(local, host)| !local.is_empty() && host.contains('.'))
        && !text.contains(char::is_whitespace)
}
