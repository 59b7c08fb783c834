// The form that asks for a token of the admin API.

import { Failure, logIn } from "./api.js";
import { h, text } from "./dom.js";

/** logInForm asks for a token until the proxy accepts one, and calls back then. message says why it is needed. */
export function logInForm(message, then) {
  if (document.getElementById("token-dialog")) return;
  const token = h("input", { type: "password", name: "token", required: true, autocomplete: "current-password", spellcheck: "false" });
  const submit = h("button", { type: "submit", class: "primary" }, "Log in");
  const refused = h("p", { class: "bad", role: "alert", hidden: true });
  const form = h("form", { method: "dialog" }, h("h2", { id: "token-title" }, "Log in to this proxy"), h("p", {}, message),
    h("label", {}, h("span", {}, "Token of the admin API"), token),
    h("p", { class: "muted small" }, "With the token of readers, you see everything and change nothing. This tab keeps the token until you log out or close the tab, for 12 hours at most."),
    refused, h("p", { class: "buttons" }, submit));
  const dialog = h("dialog", { id: "token-dialog", "aria-labelledby": "token-title" }, form);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    refused.hidden = true;
    try {
      await logIn(token.value.trim());
      dialog.close();
      dialog.remove();
      then();
    } catch (error) {
      refused.hidden = false;
      text(refused, error instanceof Failure ? `Not logged in: ${error.message}.` : `This page has failed: ${error.message}`);
      token.value = "";
      token.focus();
    } finally {
      submit.disabled = false;
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}
