// The prompt for promptfoo: texts and fields are kept apart in prompt.json, so nothing in them is filled in twice.
const prompt = require('./prompt.json');

module.exports = ({ vars }) => {
  const filled = prompt.messages.map(({ role, content }) => ({
    role,
    content: content.map((part) => (typeof part === 'string' ? part : String(vars[part.field]))).join(''),
  }));
  return prompt.api === 'chat' ? filled : filled[0].content;
};
