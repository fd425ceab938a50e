// Asks real Quartz: one question a line on standard input, tab-separated (expression, zone, instant in epoch
// milliseconds, how many), one answer a line: the next instants separated by blanks, "-" for no more, or
// "refused" and why. Ends with its input.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.text.ParseException;
import java.util.Date;
import java.util.StringJoiner;
import java.util.TimeZone;
import org.quartz.CronExpression;

public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintWriter(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(answer(line.split("\t")));
    }
    out.flush();
  }

  private static String answer(String[] question) {
    CronExpression expression;
    try {
      expression = new CronExpression(question[0]);
    } catch (ParseException | RuntimeException refusal) {
      return "refused " + refusal.getMessage();
    }
    expression.setTimeZone(TimeZone.getTimeZone(question[1]));
    var after = new Date(Long.parseLong(question[2]));
    var times = new StringJoiner(" ");
    for (int i = 0; i < Integer.parseInt(question[3]); i++) {
      after = expression.getTimeAfter(after);
      if (after == null) {
        times.add("-");
        break;
      }
      times.add(Long.toString(after.getTime()));
    }
    return times.toString();
  }
}
