// The prompt for promptfoo, which fills in templates in what this returns: braces in texts are written as values.
// Those in tests.json are written so already.
const prompt = require('./prompt.json');
const asIs = (text) => text.replace(/\{(?=[{%#]|$)/g, "{{'{'}}");

module.exports = ({ vars }) => {
  const filled = prompt.messages.map(({ role, content }) => ({
    role,
    content: content.map((part) => (typeof part === 'string' ? asIs(part) : String(vars[part.field]))).join(''),
  }));
  return prompt.api === 'chat' ? filled : filled[0].content;
};
