/**
 * The reference page of the settings, made from the schema: what is on the page is what the server takes. The
 * text is the same on every machine, so defaults that depend on one are told in words.
 */
import { type Config, type ConfigKey, configKeys, configSchema, environmentName } from './schema.ts'

const code = (value: string): string => `\`${value}\``

/** The value as one would write it in a variable. */
function asText(value: Config[ConfigKey]): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : code(value.join(','))
  if (value === undefined) return 'not set'
  if (typeof value !== 'object') return code(String(value))
  return Object.keys(value).length === 0 ? 'none' : code(JSON.stringify(value))
}

function row(key: ConfigKey): string {
  const setting = configSchema.shape[key]
  const { description, defaultInWords } = setting.meta() ?? {}
  if (description === undefined) throw new Error(`the setting ${key} has no description`)
  const fallback = typeof defaultInWords === 'string' ? defaultInWords : asText(setting.parse(undefined))
  const cells = [code(key), code(environmentName(key)), fallback, description]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** Markdown, from the heading on. */
export function renderConfiguration(): string {
  return `# Configuration

A setting is taken from the first of these that has it:

1. a flag of \`belfry server\`, for those settings that have one
2. its environment variable
3. the configuration file that \`--config\` or \`BELFRY_CONFIG\` names: YAML or JSON
4. the default

In a variable a list is written with commas, and a switch as \`true\` or \`false\`. Every variable has a twin
whose name ends in \`_FILE\`: it names a file that holds the value, as for mounted secrets
(\`DATABASE_URL_FILE\`). Giving both is an error. So are unknown settings in the file and unknown variables
that begin with \`BELFRY_\`: the server does not start. \`belfry config check\` tells all faults at once,
\`belfry config show\` each value and where it comes from. The source is
\`packages/server/src/config/schema.ts\`.

| setting | environment variable | default | meaning |
|---|---|---|---|
${configKeys.map(row).join('\n')}
`
}
