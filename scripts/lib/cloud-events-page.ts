// The reference page of the events that leave Belfry, rendered from their schemas in the contract.
// docs/reference/cloud-events.md is this text; a test tells when it is not.
import {
  type CloudEvent,
  cloudEventSchema,
  cloudEventTypes,
  runEventDataSchema,
  workflowRunEventDataSchema,
} from '@belfry/contract'
import { z } from 'zod'

type Property = {
  readonly description?: string
  readonly type?: string | readonly string[]
  readonly anyOf?: readonly Property[]
}

const run = '01930b1c-6c00-7aaa-8aaa-000000000001'
const tenant = '01930b1c-6c00-7aaa-8aaa-0000000000ff'

const example: CloudEvent = {
  specversion: '1.0',
  id: `${run}.1`,
  source: `/belfry/belfry/tenants/${tenant}`,
  type: 'belfry.run.succeeded',
  subject: run,
  time: '2026-11-30T12:00:00.250Z',
  datacontenttype: 'application/json',
  data: {
    runId: run,
    tenantId: tenant,
    jobId: '01930b1c-6c00-7aaa-8aaa-000000000002',
    queue: 'default',
    source: 'schedule',
    scheduleId: '01930b1c-6c00-7aaa-8aaa-000000000003',
    scheduledFor: '2026-11-30T12:00:00.000Z',
    workflowRunId: null,
    attempt: 1,
    outcome: 'succeeded',
    state: 'succeeded',
    reason: null,
    errorCode: null,
    startedAt: '2026-11-30T12:00:00.012Z',
    endedAt: '2026-11-30T12:00:00.250Z',
    retryAt: null,
  },
}

function table(schema: z.ZodType): string {
  const { properties = {} } = z.toJSONSchema(schema) as { properties?: Readonly<Record<string, Property>> }
  const rows = Object.entries(properties).map(([name, property]) => {
    const types = (property.anyOf ?? [property]).flatMap(({ type }) => type ?? 'string')
    return `| \`${name}\` | ${types.join(' or ')} | ${property.description ?? ''} |`
  })
  return `| property | type | meaning |\n|---|---|---|\n${rows.join('\n')}`
}

const types = Object.entries(cloudEventTypes).map(([type, words]) => `| \`${type}\` | ${words} |`)

/** The whole page, as Markdown. */
export function renderCloudEvents(): string {
  const attributes = z.toJSONSchema(cloudEventSchema) as { anyOf?: readonly unknown[] }
  const [first] = attributes.anyOf ?? []
  const { properties = {} } = first as { properties?: Readonly<Record<string, Property>> }
  const said = Object.entries(properties).flatMap(([name, { description }]) =>
    description === undefined ? [] : [`| \`${name}\` | ${description} |`],
  )
  return `# Events that leave Belfry

<!-- Generated from packages/contract/src/cloud-events.ts; do not edit. -->

With [Kafka](../how-to/kafka.md) each end of an attempt, a run and a workflow run leaves as a
[CloudEvent](https://github.com/cloudevents/spec) 1.0 in JSON, with the header
\`content-type: application/cloudevents+json\`. Each is sent at least once; the same event has the same
\`source\` and \`id\` each time. The key of a message is the id of the workflow run, or of a run that
belongs to none: events of one key come in order, but for repeats. No event carries an input, a result or a
header. Properties may be added; those that are here stay. The schemas are \`cloudEventSchema\` and its parts
in \`@belfry/contract\`.

| type | when |
|---|---|
${types.join('\n')}

## Attributes

| attribute | meaning |
|---|---|
${said.join('\n')}

## Data of \`belfry.run.…\`

${table(runEventDataSchema)}

## Data of \`belfry.workflow_run.…\`

${table(workflowRunEventDataSchema)}

## An example

\`\`\`json
${JSON.stringify(cloudEventSchema.parse(example), null, 2)}
\`\`\`
`
}
