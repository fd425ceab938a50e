/**
 * `belfry schedule create`: when, and what; with
 * `--http` no job has to be made before.
 */
import type { Schedule } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { BodyOf, Client } from '@belfry/sdk'
import type { Call, Command } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { cautionLines, scheduleShape, whenWords } from '../output/shapes.ts'
import { plain } from '../output/text.ts'
import { timeWithDistance } from '../output/times.ts'
import { isId } from '../resolve-name.ts'
import { derivedName } from '../schedule-name.ts'
import { handlerFlags, handlerFromFlags } from './handler-flags.ts'
import { jobFieldFlags, policiesFromFlags, policyFlags, retryFromFlags } from './job-flags.ts'
import { calendarUseFlags, calendarUseFromFlags } from './schedule-calendars.ts'
import { policiesFromScheduleFlags, schedulePolicyFlags } from './schedule-policies.ts'
import {
  checkRate,
  ifPastFlag,
  newTimingFromFlags,
  scheduleFieldFlags,
  timingFlags,
} from './schedule-timing.ts'
import { given, inputFlag, sayChange } from './shared.ts'

/** How many derived names are tried before the caller has to give one. */
const nameAttempts = 50

type NamelessBody = Omit<BodyOf<'scheduleCreate'>, 'name'>

async function jobName(call: Call): Promise<string | undefined> {
  const job = call.flags.text('job')
  if (job === undefined || !isId(job)) return job
  return (await (await call.client()).jobs.get(job)).name
}

async function workflowName(call: Call): Promise<string | undefined> {
  const workflow = call.flags.text('workflow')
  if (workflow === undefined || !isId(workflow)) return workflow
  return (await (await call.client()).workflows.get(workflow)).name
}

async function bodyFromFlags(call: Call): Promise<NamelessBody> {
  const timing = newTimingFromFlags(call)
  if ((timing.at ?? timing.every ?? timing.cron) === undefined) {
    throw new UsageError("say when: --every 5m, --cron '0 2 * * *' or --at 2026-12-01T02:30:00Z")
  }
  checkRate(timing.every)
  const handler = await handlerFromFlags(call)
  const job = await jobName(call)
  const workflow = await workflowName(call)
  const targets = [handler, job, workflow].filter((target) => target !== undefined).length
  if (targets !== 1) {
    const ways =
      '--http POST https://example.com/hook, --function NAME, --container IMAGE, --lambda ARN, --job NAME or --workflow NAME'
    throw new UsageError(targets === 0 ? `say what: ${ways}` : `give only one of what runs: ${ways}`)
  }
  const [ofJob] = handler === undefined ? call.flags.given(policyFlags.map((flag) => flag.name)) : []
  if (ofJob !== undefined && job !== undefined)
    throw new UsageError(`--${ofJob} belongs to the job: use belfry job update ${job}`)
  if (ofJob !== undefined) throw new UsageError(`--${ofJob} belongs to tasks: write it in the workflow`)
  return {
    ...timing,
    ...calendarUseFromFlags(call),
    ...policiesFromScheduleFlags(call),
    ...policiesFromFlags(call),
    ...given({
      startAt: call.flags.instant('start'),
      endAt: call.flags.instant('end'),
      ifPast: call.flags.choice('if-past', ['reject', 'runNow']),
      handler,
      job,
      workflow,
      retry: retryFromFlags(call),
      input: (await call.flags.json('input')) as NamelessBody['input'],
    }),
  }
}

/** Creates under the name given, or under the first derived one that is free. */
async function createNamed(client: Client, call: Call, body: NamelessBody): Promise<Schedule> {
  const name = call.argument('name')
  if (name !== undefined) return client.schedules.create({ ...body, name }, { dryRun: call.dryRun })
  const url = body.handler?.kind === 'http' ? body.handler.url : undefined
  const parts = { ...body, url }
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await client.schedules.create(
        { ...body, name: derivedName(parts, attempt) },
        { dryRun: call.dryRun },
      )
    } catch (error) {
      const taken = error instanceof BelfryError && error.code === 'name_taken'
      if (!taken || attempt >= nameAttempts) throw error
    }
  }
}

async function create(call: Call): Promise<undefined> {
  const body = await bodyFromFlags(call)
  const schedule = await createNamed(await call.client(), call, body)
  call.printer.row(schedule, scheduleShape)
  const first =
    schedule.nextAt === null ? '' : `, first ${timeWithDistance(schedule.nextAt, call.printer.clock)}`
  const then = schedule.upcoming.map((at) => timeWithDistance(at, call.printer.clock)).join('; ')
  call.printer.say(
    plain(schedule.words),
    ...(then === '' ? [] : [`First times: ${then}`]),
    ...cautionLines(schedule).map(plain),
  )
  sayChange(
    call,
    `Created the schedule ${schedule.name}: ${whenWords(schedule)}${first}.`,
    `belfry ${schedule.workflow === null ? 'run' : 'workflow-run'} list --schedule ${schedule.name}`,
    `belfry schedule trigger ${schedule.name} --wait`,
  )
}

export const scheduleCreateCommand: Command = {
  noun: 'schedule',
  verb: 'create',
  summary: 'Say when something runs',
  details:
    'With --http a job of the same name is made along. Without a name one is made of the host and the time.',
  arguments: [{ name: 'name', summary: 'Name of the schedule', optional: true }],
  flags: [
    ...timingFlags,
    ifPastFlag,
    ...handlerFlags,
    { name: 'job', value: 'name', summary: 'Run this job instead of --http' },
    { name: 'workflow', value: 'name', summary: 'Begin a run of this workflow instead' },
    inputFlag,
    ...calendarUseFlags,
    ...schedulePolicyFlags,
    ...policyFlags,
  ],
  effect: 'change',
  fieldFlags: {
    ...jobFieldFlags,
    ...scheduleFieldFlags,
    '/name': '<name>',
    '/job': '--job',
    '/workflow': '--workflow',
  },
  examples: [
    {
      words: 'Call a URL every five minutes',
      command: 'belfry schedule create nightly --every 5m --http POST https://example.com/hook',
    },
    {
      words: 'At 02:30 each day in Berlin, five tries of at most 30 seconds',
      command:
        "belfry schedule create report --cron '30 2 * * *' --zone Europe/Berlin --http https://example.com/report --max-attempts 5 --timeout 30s",
    },
    {
      words: 'By an expression of Quartz, without the time that the clock leaps over',
      command:
        "belfry schedule create close --dialect quartz --cron '0 30 2 L * ?' --zone Europe/Berlin" +
        ' --dst-gap skip --job report',
    },
    {
      words: 'Ten times and then no more; wait for the run before, and stop when three have failed',
      command:
        'belfry schedule create probe --every 1h --run-limit 10 --overlap buffer_one ' +
        '--pause-after-failures 3 --job probe',
    },
    {
      words: 'On the last business day of the month, on the one before where that is a holiday',
      command:
        "belfry schedule create payroll --cron '0 9 LW * *' --zone Europe/Berlin --skip-on holidays" +
        ' --on-excluded previous_business_day --job payroll',
    },
    {
      words: 'A workflow, each night, with what it missed',
      command: "belfry schedule create nightly --cron '0 3 * * *' --workflow etl --catch-up all",
    },
    {
      words: 'Once, ten minutes from now, with an input',
      command: `belfry schedule create --at +10m --job report --input '{"month": "2026-11"}'`,
    },
  ],
  run: create,
}
