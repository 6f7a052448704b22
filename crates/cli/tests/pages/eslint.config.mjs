// The rules of the page, of its tests in a browser, and of the scripts that check PyTorch's viewer.
import js from "@eslint/js";
import globals from "globals";

const rules = {
  // Control characters are what the page escapes.
  "no-control-regex": "off",
  "array-callback-return": "error",
  eqeqeq: "error",
  "no-constructor-return": "error",
  "no-else-return": "error",
  "no-self-compare": "error",
  "no-sequences": "error",
  "no-template-curly-in-string": "error",
  "no-throw-literal": "error",
  "no-unmodified-loop-condition": "error",
  "no-unreachable-loop": "error",
  "no-unused-expressions": "error",
  "no-useless-return": "error",
  "no-var": "error",
  "object-shorthand": "error",
  "prefer-const": "error",
  // `_` counts the turns of a loop.
  "no-unused-vars": ["error", {varsIgnorePattern: "^_$"}],
};
// Texts of a snapshot become text nodes only, and no text becomes code.
const of_page = {
  "no-eval": "error",
  "no-implied-eval": "error",
  "no-new-func": "error",
  "no-restricted-syntax": ["error", {
    selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|createContextualFragment|srcdoc)$/], MemberExpression[object.name='document'][property.name=/^write/]",
    message: "a text may be hostile: make elements with element() of text.js",
  }],
};
// Their functions for page.evaluate run in the page.
const of_tests = {...globals.node, ...globals.browser};

export default [
  {linterOptions: {reportUnusedDisableDirectives: "error"}},
  js.configs.recommended,
  {rules},
  {files: ["crates/cli/viewer/*.js"], languageOptions: {globals: globals.browser}, rules: of_page},
  {files: ["crates/cli/viewer/web_worker.js"], languageOptions: {sourceType: "script", globals: globals.worker}},
  {files: ["crates/cli/tests/**/*.mjs", "dev/scripts/*.mjs"], languageOptions: {globals: of_tests}},
  {files: ["dev/scripts/window-viewer"], languageOptions: {sourceType: "commonjs", globals: globals.node}},
];
