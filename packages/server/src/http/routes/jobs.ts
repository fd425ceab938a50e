/**
 * Endpoints of jobs: what is run, and how. Whatever changes makes a new version, because runs name the
 * version that they were made with.
 */
import type { JobDefinition, JobUpdate } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { isDeepStrictEqual } from 'node:util'
import { checkMayActAs, checkRunAs } from '../../engine/catalog/act-as.ts'
import type { JobRecord } from '../../ports/catalog.ts'
import type { Endpoints } from '../endpoint.ts'
import { checkContainer } from '../check-container.ts'
import { checkIfMatch } from '../etag.ts'
import { checkGathering } from '../gathering-rules.ts'
import { mergedRetry } from '../merged-retry.ts'
import { checkPools } from '../named-pools.ts'
import { checkSecrets } from '../named-secrets.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { withoutMasks } from '../secret-headers.ts'
import { jobSummaryView, jobView } from '../views.ts'

type JobEndpoints = Pick<Endpoints, 'jobCreate' | 'jobList' | 'jobGet' | 'jobUpdate' | 'jobDelete'>

export const jobEndpoints: JobEndpoints = {
  jobCreate: {
    as: 'tenant',
    async answer({ tx, tools, body, credential }) {
      const { name, description, ...definition } = body
      checkMayActAs(credential, [definition.runAs])
      withoutMasks(definition.handler, undefined)
      tools.checkTarget(definition.handler)
      checkGathering(definition, undefined)
      await checkRunAs(tx, definition)
      await checkPools(tx, definition)
      await checkSecrets(tx, definition.handler)
      await checkContainer(tx, tools, definition.handler)
      const id = tools.ids.uuidv7(await tx.nowMs())
      return answerOf(await tx.jobs.insert({ id, name, description, definition }))
    },
  },
  jobList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const filter = { name: query.name }
      const scope = { list: 'jobs', tenantId: credential.tenantId, filter }
      return { body: await pageById(scope, query, (page) => tx.jobs.list(page, filter), jobSummaryView) }
    },
  },
  jobGet: {
    as: 'tenant',
    async answer({ tx, params }) {
      const job = await tx.jobs.find(params.id)
      if (job === undefined) throw noSuch('job', params.id)
      return answerOf(job)
    },
  },
  jobUpdate: {
    as: 'tenant',
    async answer({ tx, tools, params, body, ifMatch, credential, after }) {
      const job = await tx.jobs.lock(params.id)
      if (job === undefined) throw noSuch('job', params.id)
      checkIfMatch(ifMatch, job.version)
      checkMayActAs(credential, [job.definition.runAs, body.runAs ?? null])
      if (body.handler !== undefined) tools.checkTarget(body.handler)
      const definition = mergedDefinition(job.definition, body)
      if (body.runAs !== undefined || body.queue !== undefined) await checkRunAs(tx, definition)
      if (body.concurrency !== undefined) await checkPools(tx, definition)
      if (body.handler !== undefined) {
        await checkSecrets(tx, definition.handler)
        await checkContainer(tx, tools, definition.handler)
      }
      after({ kind: 'hint', hint: { topic: 'gate', key: credential.tenantId } })
      if (definition.collect !== null) checkGathering(definition, await tx.jobs.userOf(job.id))
      const description = body.description ?? job.description
      const same = description === job.description && isDeepStrictEqual(definition, job.definition)
      return answerOf(same ? job : await tx.jobs.update(job.id, { description, definition }))
    },
  },
  jobDelete: {
    as: 'tenant',
    async answer({ tx, params, ifMatch, credential }) {
      const job = await tx.jobs.lock(params.id)
      if (job === undefined) throw noSuch('job', params.id)
      checkIfMatch(ifMatch, job.version)
      checkMayActAs(credential, [job.definition.runAs])
      const user = await tx.jobs.userOf(job.id)
      if (user !== undefined) {
        const [kind] = user.split(' ')
        const message = `The ${user} uses the job "${job.name}"; delete that ${kind} first.`
        throw new BelfryError('in_use', message)
      }
      await tx.jobs.remove(job.id)
      return { body: undefined, audited: { subjectName: job.name } }
    },
  },
}

function answerOf(job: JobRecord) {
  return { body: jobView(job), version: job.version, location: `/v1/jobs/${job.id}` }
}

function mergedDefinition(before: JobDefinition, change: JobUpdate): JobDefinition {
  return {
    handler: change.handler === undefined ? before.handler : withoutMasks(change.handler, before.handler),
    retry: mergedRetry(before.retry, change.retry, '/retry'),
    attemptTimeoutMs: change.attemptTimeoutMs ?? before.attemptTimeoutMs,
    runDeadlineMs: change.runDeadlineMs === undefined ? before.runDeadlineMs : change.runDeadlineMs,
    startWithinMs: change.startWithinMs === undefined ? before.startWithinMs : change.startWithinMs,
    delivery: change.delivery ?? before.delivery,
    queue: change.queue ?? before.queue,
    priority: change.priority ?? before.priority,
    concurrency: change.concurrency === undefined ? before.concurrency : change.concurrency,
    rateLimit: change.rateLimit === undefined ? before.rateLimit : change.rateLimit,
    debounce: change.debounce === undefined ? before.debounce : change.debounce,
    collect: change.collect === undefined ? before.collect : change.collect,
    runAs: change.runAs === undefined ? before.runAs : change.runAs,
  }
}
