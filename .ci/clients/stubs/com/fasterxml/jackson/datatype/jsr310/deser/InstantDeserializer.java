package com.fasterxml.jackson.datatype.jsr310.deser;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import java.io.IOException;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.time.temporal.Temporal;
import java.time.temporal.TemporalAccessor;
import java.util.function.BiFunction;
import java.util.function.Function;

/** Stands for the class of the same name, which Debian does not package. For compiling only. */
public class InstantDeserializer<T extends Temporal> extends StdDeserializer<T> {
    private static final long serialVersionUID = 1L;

    protected InstantDeserializer(Class<T> type, DateTimeFormatter formatter, Function<TemporalAccessor, T> parsed,
            Function<FromIntegerArguments, T> millis, Function<FromDecimalArguments, T> nanos,
            BiFunction<T, ZoneId, T> adjust, boolean replace, boolean normalize, boolean numeric) {
        super(type);
    }

    protected T _fromString(JsonParser parser, DeserializationContext context, String text) throws IOException {
        return null;
    }

    @Override
    public T deserialize(JsonParser parser, DeserializationContext context) throws IOException {
        return null;
    }

    public static class FromIntegerArguments {
        public final long value = 0;
        public final ZoneId zoneId = null;
    }

    public static class FromDecimalArguments {
        public final long integer = 0;
        public final int fraction = 0;
        public final ZoneId zoneId = null;
    }
}
