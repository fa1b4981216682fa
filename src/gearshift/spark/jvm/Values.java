package gearshift;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/** What both formats make of numbers, times and texts. */
class Values {
  static final long FIRST_DAY = -719162L;
  static final long LAST_DAY = 2932896L;
  static final long DAY = 86400000000L;
  static final String YEARS = "is not between the years 1 and 9999";

  static long micros(long micros) throws Misfit {
    if (micros < FIRST_DAY * DAY || micros >= (LAST_DAY + 1L) * DAY) throw new Misfit(YEARS);
    return micros;
  }

  static int days(long days) throws Misfit {
    if (days < FIRST_DAY || days > LAST_DAY) throw new Misfit(YEARS);
    return (int) days;
  }

  /** Microseconds since 1970 of a number of units; what is finer than a microsecond is cut. */
  static long instant(long number, long nanos, ZoneId zone) throws Misfit {
    long micros;
    if (nanos == 1L) micros = Math.floorDiv(number, 1000L);
    else {
      long factor = nanos / 1000L;
      if (number > Long.MAX_VALUE / factor || number < Long.MIN_VALUE / factor) throw new Misfit(YEARS);
      micros = number * factor;
    }
    micros(micros);
    if (zone == null) return micros;
    int nano = (int) Math.floorMod(micros, 1000000L) * 1000;
    LocalDateTime local = LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1000000L), nano, ZoneOffset.UTC);
    return micros(local.atZone(zone).toEpochSecond() * 1000000L + nano / 1000);
  }

  static long count(long number, long nanos, long wanted) throws Misfit {
    BigInteger[] found = BigInteger.valueOf(number).multiply(BigInteger.valueOf(nanos)).divideAndRemainder(BigInteger.valueOf(wanted));
    if (found[1].signum() != 0) throw new Misfit("is more precise than the declared unit");
    if (found[0].bitLength() > 63) throw new Misfit("does not fit in 64 bits");
    return found[0].longValue();
  }

  /** The number with just the digits of its type; it is never rounded. */
  static Decimal decimal(BigDecimal number, int precision, int scale) throws Misfit {
    if (number.signum() == 0) return Decimal.apply(BigDecimal.ZERO.setScale(scale), precision, scale);
    // Text such as 1e999999999 is short and the number it spells is not: it is compared before it is written out.
    long digits = (long) number.precision() - number.scale();
    if (digits > precision - scale && digits > 0) throw tooMany(precision, scale);
    if (digits < -scale) throw tooFine(scale);
    BigDecimal exact;
    try {
      exact = number.setScale(scale);
    } catch (ArithmeticException inexact) {
      throw tooFine(scale);
    }
    if (exact.precision() > precision) throw tooMany(precision, scale);
    return Decimal.apply(exact, precision, scale);
  }

  static Misfit tooMany(int precision, int scale) {
    return new Misfit("has too many digits for decimal(" + precision + ", " + scale + ")");
  }

  private static Misfit tooFine(int scale) {
    return new Misfit("has more than " + scale + " digits after the point; round it first");
  }

  static UTF8String text(byte[] data, int from, int length) throws Misfit {
    UTF8String found = UTF8String.fromBytes(data, from, length);
    if (!found.isValid()) throw new Misfit("is not valid UTF-8");
    return found;
  }
}
