/**
 * The table of all commands, in the order in
 * which help and reference show them.
 */
import type { Command } from './command.ts'
import { accessCommands } from './commands/access.ts'
import { auditCommands } from './commands/audit.ts'
import { backfillCommands, scheduleBackfillCommand } from './commands/backfill.ts'
import { calendarCommands } from './commands/calendar.ts'
import { clusterCommands } from './commands/cluster.ts'
import { containerCommands } from './commands/container.ts'
import { contextCommands } from './commands/context.ts'
import { deadLetterCommands } from './commands/dead-letter.ts'
import { doctorCommand } from './commands/doctor.ts'
import { eventCommands } from './commands/event.ts'
import { jobCommands } from './commands/job.ts'
import { memberCommands } from './commands/member.ts'
import { occurrenceCommands } from './commands/occurrence.ts'
import { poolCommands } from './commands/pool.ts'
import { queueCommands } from './commands/queue.ts'
import { lambdaCommands } from './commands/lambda.ts'
import { quotaCommands } from './commands/quota.ts'
import { replanCommands } from './commands/replan.ts'
import { runCommands } from './commands/run.ts'
import { roleCommands } from './commands/role.ts'
import { scheduleCommands } from './commands/schedule.ts'
import { secretCommands } from './commands/secret.ts'
import { demoCommand, devCommand, serverCommands } from './commands/server.ts'
import { securityCommands } from './commands/security.ts'
import { signInCommands } from './commands/sign-in.ts'
import { serviceAccountCommands } from './commands/service-account.ts'
import { workerCommands } from './commands/worker.ts'
import { workflowCommands } from './commands/workflow.ts'
import { workflowActCommands } from './commands/workflow-acts.ts'
import { workflowExplainCommands } from './commands/workflow-explain.ts'
import { workflowDecisionCommands } from './commands/workflow-decisions.ts'
import { workflowRunCommands } from './commands/workflow-run.ts'

export const commandTable: readonly Command[] = [
  devCommand,
  ...scheduleCommands,
  ...occurrenceCommands,
  scheduleBackfillCommand,
  ...backfillCommands,
  ...calendarCommands,
  ...runCommands,
  ...deadLetterCommands,
  ...jobCommands,
  ...queueCommands,
  ...poolCommands,
  ...workerCommands,
  ...workflowCommands,
  ...workflowRunCommands,
  ...workflowActCommands,
  ...workflowExplainCommands,
  ...workflowDecisionCommands,
  ...eventCommands,
  ...contextCommands,
  ...accessCommands,
  ...serviceAccountCommands,
  ...roleCommands,
  ...memberCommands,
  ...signInCommands,
  ...auditCommands,
  ...secretCommands,
  ...quotaCommands,
  ...lambdaCommands,
  ...containerCommands,
  ...securityCommands,
  doctorCommand,
  ...serverCommands,
  ...clusterCommands,
  ...replanCommands,
  demoCommand,
]
