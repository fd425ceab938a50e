/**
 * What the audit says of each route that changes something: the action (`noun.verb`) and the kind of thing it
 * is done to, or why a call leaves no entry. The registry records by this table, in the transaction of the
 * call; a test holds it complete. A route that only reads stands here where the reading itself is worth an
 * entry: that one is written beside the call.
 */
import type { AuditSubjectKind } from './audit.ts'
import type { RouteName } from './routes.ts'

export type AuditRule =
  | {
      readonly action: `${string}.${string}`
      readonly subject: AuditSubjectKind
      /** `answer`: the thing is what the call made, and the path names another. */
      readonly subjectIn?: 'answer'
    }
  /** Why a call leaves no entry. */
  | { readonly notAudited: string }

const asRun = {
  notAudited: 'every run that it makes is on record as a run, with its source and as whom it runs',
}
const signingIn = { notAudited: 'it is on record as session.create, done or refused, with who it was' }
const worker = { notAudited: 'what workers claim, report and log is on record with each attempt' }
const announced = { notAudited: 'each job that it makes or changes is on record as job.create or job.update' }

export const auditTable = {
  tenantCreate: { action: 'tenant.create', subject: 'tenant' },
  tenantContainerPolicyUpdate: { action: 'container_policy.update', subject: 'tenant' },
  tenantQuotaUpdate: { action: 'quota.update', subject: 'quota' },
  tenantLimitSet: { action: 'tenant.limit', subject: 'tenant' },
  keyCreate: { action: 'key.create', subject: 'key' },
  keyRevoke: { action: 'key.revoke', subject: 'key' },
  serviceAccountCreate: { action: 'service_account.create', subject: 'service_account' },
  serviceAccountUpdate: { action: 'service_account.update', subject: 'service_account' },
  secretCreate: { action: 'secret.create', subject: 'secret' },
  secretUpdate: { action: 'secret.update', subject: 'secret' },
  secretRotate: { action: 'secret.rotate', subject: 'secret' },
  secretRestore: { action: 'secret.restore', subject: 'secret' },
  secretDelete: { action: 'secret.delete', subject: 'secret' },
  secretGrant: { action: 'secret.grant', subject: 'secret' },
  secretRevoke: { action: 'secret.revoke', subject: 'secret' },
  secretRewrap: { action: 'secret.rewrap', subject: 'secret' },
  memberCreate: { action: 'member.invite', subject: 'member' },
  memberUpdate: { action: 'member.update', subject: 'member' },
  memberInvite: { action: 'member.invite', subject: 'member' },
  memberDelete: { action: 'member.delete', subject: 'member' },
  signIn: signingIn,
  inviteAccept: signingIn,
  signOut: { action: 'session.end', subject: 'session' },
  personSessionRevoke: { action: 'session.revoke', subject: 'session' },
  passwordChange: { notAudited: 'it is on record as member.password, in a transaction of its own' },
  jobCreate: { action: 'job.create', subject: 'job' },
  jobUpdate: { action: 'job.update', subject: 'job' },
  jobDelete: { action: 'job.delete', subject: 'job' },
  jobPause: { action: 'job.pause', subject: 'job' },
  jobResume: { action: 'job.resume', subject: 'job' },
  scheduleCreate: { action: 'schedule.create', subject: 'schedule' },
  scheduleUpdate: { action: 'schedule.update', subject: 'schedule' },
  scheduleDelete: { action: 'schedule.delete', subject: 'schedule' },
  schedulePause: { action: 'schedule.pause', subject: 'schedule' },
  scheduleResume: { action: 'schedule.resume', subject: 'schedule' },
  scheduleSleep: { action: 'schedule.sleep', subject: 'schedule' },
  scheduleWake: { action: 'schedule.wake', subject: 'schedule' },
  scheduleSkip: { action: 'schedule.skip', subject: 'schedule' },
  scheduleTrigger: { action: 'schedule.trigger', subject: 'schedule' },
  backfillCreate: { action: 'backfill.create', subject: 'backfill', subjectIn: 'answer' },
  backfillPause: { action: 'backfill.pause', subject: 'backfill' },
  backfillResume: { action: 'backfill.resume', subject: 'backfill' },
  backfillCancel: { action: 'backfill.cancel', subject: 'backfill' },
  calendarCreate: { action: 'calendar.create', subject: 'calendar' },
  calendarUpdate: { action: 'calendar.update', subject: 'calendar' },
  calendarDelete: { action: 'calendar.delete', subject: 'calendar' },
  workflowApply: { action: 'workflow.apply', subject: 'workflow' },
  workflowDelete: { action: 'workflow.delete', subject: 'workflow' },
  workflowRunCreate: { action: 'workflow_run.start', subject: 'workflow_run' },
  workflowRunCancel: { action: 'workflow_run.cancel', subject: 'workflow_run' },
  workflowRunRerun: { action: 'workflow_run.rerun', subject: 'workflow_run' },
  workflowRunMark: { action: 'workflow_run.mark', subject: 'workflow_run' },
  workflowRunSkip: { action: 'workflow_run.skip', subject: 'workflow_run' },
  workflowRunApprove: { action: 'workflow_run.approve', subject: 'workflow_run' },
  workflowRunReject: { action: 'workflow_run.reject', subject: 'workflow_run' },
  workflowRunSignal: { action: 'workflow_run.signal', subject: 'workflow_run' },
  eventSend: { action: 'event.send', subject: 'event' },
  runCreate: asRun,
  runBatch: asRun,
  runCancel: { action: 'run.cancel', subject: 'run' },
  runCancelMany: { action: 'run.cancel_many', subject: 'run' },
  deadLetterReplay: { action: 'dead_letter.replay', subject: 'dead_letter' },
  deadLetterReplayMany: { action: 'dead_letter.replay_many', subject: 'dead_letter' },
  deadLetterDelete: { action: 'dead_letter.delete', subject: 'dead_letter' },
  deadLetterDeleteMany: { action: 'dead_letter.delete_many', subject: 'dead_letter' },
  poolCreate: { action: 'pool.create', subject: 'pool' },
  poolUpdate: { action: 'pool.update', subject: 'pool' },
  poolDelete: { action: 'pool.delete', subject: 'pool' },
  queuePause: { action: 'queue.pause', subject: 'queue' },
  queueResume: { action: 'queue.resume', subject: 'queue' },
  auditExport: { action: 'audit.export', subject: 'audit' },
  functionRegister: announced,
  callbackReport: { notAudited: 'what a target reports is on record with its attempt' },
  workerOpen: worker,
  workerHeartbeat: worker,
  workerClaim: worker,
  workerComplete: worker,
  workerLog: worker,
  workerRelease: worker,
  workerClose: worker,
} as const satisfies Partial<Record<RouteName, AuditRule>>

/** What the audit says of a route; undefined: it only reads, and reading it leaves no entry. */
export const auditRuleOf = (name: RouteName): AuditRule | undefined =>
  (auditTable as Partial<Record<RouteName, AuditRule>>)[name]
